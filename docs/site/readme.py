"""Makes the README the first page of the site, and the changelog one of its pages."""

import pathlib
import re

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).parents[2]


def on_files(files, config):
    for name, page in {"README.md": "index.md", "CHANGELOG.md": "changes.md"}.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        text = text.replace("](docs/", "](").replace("](CHANGELOG.md)", "](changes.md)")
        text = re.sub(r"\[([^\]]+)\]\((?!https?:|[\w/-]+\.md|#)[^)]*\)", r"\1", text)  # folders of the source
        files.append(File.generated(config, page, content=text))
    return files
