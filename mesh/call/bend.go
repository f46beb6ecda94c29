package call

import (
	"cmp"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// bend returns an object as version 1.0 of A2A would have it: what v0.3 and usual
// mistakes call otherwise is put where it belongs.
func (l lenient) bend(v any, kind protoreflect.Name) (map[string]any, error) {
	obj, ok := v.(map[string]any)
	text, isText := v.(string)
	switch {
	case ok:
	case isText && kind == "Part":
		return map[string]any{"text": text}, nil
	case isText && kind == "Message":
		return map[string]any{"parts": []any{text}}, nil
	case isText && kind == "TaskStatus":
		return map[string]any{"state": text}, nil
	default:
		return nil, misread(v, "an object")
	}
	switch kind {
	case "Part":
		l.bendPart(obj)
	case "Message":
		also(obj, "parts", "content")
		also(obj, "messageId", "id")
	case "TaskStatus":
		also(obj, "message", "update")
	case "Artifact":
		also(obj, "artifactId", "id")
	case "Task":
		also(obj, "id", "taskId")
		also(obj, "id", "task_id")
		also(obj, "contextId", "sessionId")
	case "TaskStatusUpdateEvent", "TaskArtifactUpdateEvent":
		also(obj, "taskId", "id")
	case "StreamResponse":
		return bendResponse(obj), nil
	}
	return obj, nil
}

// also takes another name's value if there is none.
func also(obj map[string]any, name, other string) {
	if v, ok := obj[other]; ok && obj[name] == nil {
		obj[name] = v
	}
}

func (l lenient) bendPart(obj map[string]any) {
	if file, ok := obj["file"].(map[string]any); ok {
		for _, from := range []struct{ name, other string }{
			{"url", "uri"}, {"url", "fileWithUri"}, {"url", "file_with_uri"},
			{"raw", "bytes"}, {"raw", "fileWithBytes"}, {"raw", "file_with_bytes"},
			{"mediaType", "mimeType"}, {"mediaType", "mime_type"}, {"mediaType", "mediaType"}, {"filename", "name"},
		} {
			if v := file[from.other]; v != nil && !empty(v) && obj[from.name] == nil {
				obj[from.name] = v
			}
		}
	}
	also(obj, "mediaType", "mimeType")
	also(obj, "mediaType", "mime_type")
	if inner, ok := obj["data"].(map[string]any); ok && l.v03Proto {
		if v, ok := inner["data"]; ok && len(inner) == 1 {
			obj["data"] = v
		}
	}
	if v, ok := obj["data"]; ok && v == nil && cmp.Or(obj["text"], obj["raw"], obj["url"]) == nil {
		obj["data"] = jsonNull
	}
}

// bendResponse wraps what comes without its wrapper.
func bendResponse(obj map[string]any) map[string]any {
	also(obj, "message", "msg")
	for _, name := range []string{"task", "message", "statusUpdate", "status_update", "artifactUpdate", "artifact_update"} {
		if _, ok := obj[name].(map[string]any); ok {
			return obj
		}
	}
	has := func(name string) bool { return obj[name] != nil }
	kind, _ := obj["kind"].(string)
	switch {
	case kind == "artifact-update", kind == "" && has("artifact"):
		return map[string]any{"artifactUpdate": obj}
	case kind == "status-update", kind == "" && has("status") && !has("id") && (has("taskId") || has("task_id") || has("final")):
		return map[string]any{"statusUpdate": obj}
	case kind == "task", kind == "" && (has("status") || has("artifacts") || has("history")):
		return map[string]any{"task": obj}
	case kind == "message", kind == "" && (has("parts") || has("messageId") || has("message_id") || has("role")):
		return map[string]any{"message": obj}
	}
	return obj
}
