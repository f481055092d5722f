package state

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/toolhost/toolhost/tool"
)

// BenchmarkCall is what the journal adds to one call: its start and its end.
func BenchmarkCall(b *testing.B) {
	c := New(Options{Dir: b.TempDir()}).OpenCalls()
	defer c.Close()
	start := tool.Start{Identity: tool.Identity{Session: "s", Agent: "a", Message: "m", Call: "c"}, Tool: "weather/forecast"}
	call := func() {
		id, err := c.Start(b.Context(), "/project", start)
		if err == nil {
			err = c.End(b.Context(), id, tool.Completed, "")
		}
		if err != nil {
			b.Error(err)
		}
	}
	call()
	b.Run("alone", func(b *testing.B) {
		for b.Loop() {
			call()
		}
	})
	b.Run("64 at once", func(b *testing.B) {
		b.SetParallelism(64)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				call()
			}
		})
	})
}

// BenchmarkHost is a host that makes one call and ends, as a command does.
func BenchmarkHost(b *testing.B) {
	dir := b.TempDir()
	start := tool.Start{Identity: tool.Identity{Session: "s", Agent: "a", Message: "m", Call: "c"}, Tool: "weather/forecast"}
	for b.Loop() {
		s := New(Options{Dir: dir})
		if _, err := s.Abandoned(b.Context()); err != nil {
			b.Fatal(err)
		}
		c := s.OpenCalls()
		id, err := c.Start(b.Context(), "/project", start)
		if err == nil {
			err = c.End(b.Context(), id, tool.Completed, "")
		}
		if err := errors.Join(err, c.Close(), s.Close()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSeen is a call near instructions that were all given before.
func BenchmarkSeen(b *testing.B) {
	s := New(Options{Dir: b.TempDir()})
	defer s.Close()
	for b.Loop() {
		if _, err := s.Seen(b.Context(), "/project", "s", []string{"AGENTS.md"}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkApprovalView is one question of a permission check, among as many approvals
// as there can be: when nothing changed, when a call was recorded meanwhile, and when
// an approval was saved meanwhile.
func BenchmarkApprovalView(b *testing.B) {
	s := New(Options{Dir: b.TempDir()})
	defer s.Close()
	a := Approval{Root: "/p", Plugin: "git", Builtin: true, Action: "run", Patterns: []string{"git *", "ls"}}
	if _, err := s.SaveApproval(b.Context(), a); err != nil {
		b.Fatal(err)
	}
	if _, err := s.db.Exec(`WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO approvals
		SELECT NULL, '/p/' || (i % 100), 'git', 1, '', '', 'run', '', CAST(i AS BLOB), '', '', 0, 0 FROM n`, MaxApprovals); err != nil {
		b.Fatal(err)
	}
	for name, change := range map[string]string{
		"nothing changed":     "",
		"a call was recorded": "INSERT OR REPLACE INTO seen_instructions VALUES ('', '', '', 1)",
		"an approval changed": "UPDATE approval_changes SET n = n + 1",
	} {
		b.Run(name, func(b *testing.B) {
			var took time.Duration // stopping the timer would cost more than what is measured
			for b.Loop() {
				if change != "" {
					if _, err := s.db.Exec(change); err != nil {
						b.Fatal(err)
					}
				}
				began := time.Now()
				got, err := s.ApprovalView().For(b.Context(), a.Key())
				took += time.Since(began)
				if len(got) != 2 || err != nil {
					b.Fatal(got, err)
				}
			}
			b.ReportMetric(float64(took.Nanoseconds())/float64(b.N), "ns/question")
		})
	}
}

// BenchmarkAudit is one entry of a call with an input of 1 KiB, alone and beside others.
func BenchmarkAudit(b *testing.B) {
	a := NewAudit(AuditOptions{Dir: b.TempDir()})
	defer a.Close()
	for name, input := range map[string]string{
		"no input": "",
		"1 KiB":    `{"path":"a/b/c.go","content":"` + strings.Repeat("if x := f(y); x != nil { return x }\\n", 28) + `"}`,
		"1 MiB":    `{"path":"a/b/c.go","content":"` + strings.Repeat("if x := f(y); x != nil { return x }\\n", 28<<10) + `"}`,
	} {
		e := AuditEntry{
			Kind: AuditStart, Root: "/project", Session: "s", Agent: "a", Message: "m", Call: "c", Tool: "files/write", Plugin: "files", Action: "write",
			Resources: []string{"/project/a/b/c.go"}, Effect: "allow", Rule: "allow write *", Input: json.RawMessage(input),
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := a.Append(e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
