package main

import (
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// The format of a tenant in a file, and its version. The lines are a fileHead; the pieces of the
// export, of which those of a thread are as lines of their own behind it, as in a thread's file;
// and a fileEnd.
const (
	tenantFormat        = "agentmesh.tenant"
	tenantFormatVersion = 1
)

// piece writes the lines of a piece.
func (l *lines) piece(p *meshv1.TenantPiece) error {
	switch is := p.GetPiece().(type) {
	case *meshv1.TenantPiece_Begun:
		l.put(fileHead{Format: tenantFormat, Version: int(is.Begun.GetFormat()), Tenant: is.Begun.GetTenantId(),
			Export: is.Begun.GetExportId(), Time: is.Begun.GetTime().AsTime().Format(time.RFC3339)})
	case *meshv1.TenantPiece_Events:
		for _, ev := range is.Events.GetEvents() {
			l.event(ev)
		}
	default:
		l.line(protojson.Marshal(p))
	}
	return l.err
}

// checkTenantFile reads the file to its end, and returns its first line.
func checkTenantFile(name string) (fileHead, error) {
	return tenantPieces(name, func(*meshv1.TenantPiece) error { return nil })
}

// tenantPieces gives take the pieces of the tenant in the file, the last of them once all of the
// file was compared with its checksum.
func tenantPieces(name string, take func(*meshv1.TenantPiece) error) (h fileHead, err error) {
	f, err := os.Open(filepath.Clean(name))
	if err != nil {
		return h, mesh.InvalidField("mesh.import", "FILE", "cannot be read: %v", err)
	}
	defer func() { _ = f.Close() }() // only read
	r := newThreadReader(f)
	if h, err = r.headOf(tenantFormat, "tenant that 'mesh tenants export' wrote", tenantFormatVersion); err != nil {
		return h, err
	}
	begun := &meshv1.TenantExport{Format: tenantFormatVersion, ExportId: h.Export, TenantId: h.Tenant}
	if err := take(&meshv1.TenantPiece{Piece: &meshv1.TenantPiece_Begun{Begun: begun}}); err != nil {
		return h, err
	}
	for {
		line, err := r.next("all of it")
		if err != nil {
			return h, err
		}
		r.sum.Write(line)
		p := new(meshv1.TenantPiece)
		if err := protojson.Unmarshal(line, p); err != nil {
			return h, r.bad("", "is no piece of a tenant: %s", protoWords.ReplaceAllString(err.Error(), ""))
		}
		if p.GetEnd() != nil {
			if line, err = r.next("the hash of it"); err == nil {
				err = r.end(line)
			}
			if err != nil {
				return h, err
			}
			return h, take(p)
		}
		err = take(p)
		if th := p.GetThread(); th != nil && err == nil {
			err = r.threadEvents(th.GetTotal(), take)
		}
		if err != nil {
			return h, err
		}
	}
}

// threadEvents gives take so many events.
func (r *threadReader) threadEvents(total int64, take func(*meshv1.TenantPiece) error) (err error) {
	some, size := &meshv1.TenantEvents{}, 0
	flush := func() error {
		if len(some.GetEvents()) == 0 {
			return nil
		}
		p := &meshv1.TenantPiece{Piece: &meshv1.TenantPiece_Events{Events: some}}
		some, size = &meshv1.TenantEvents{}, 0
		return take(p)
	}
	for range total {
		ev, err := r.event()
		if err != nil {
			return err
		}
		n := proto.Size(ev)
		if size+n > importBytes {
			err = flush()
		}
		if some.Events, size = append(some.Events, ev), size+n; err != nil {
			return err
		}
	}
	return flush()
}
