package process

import (
	"context"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/output"
)

const (
	// reportEvery is how often a running command is reported on, at most.
	reportEvery = 500 * time.Millisecond
	// reportBytes is how much of the end of the output the last line is looked for in, and
	// reportLine how long what is shown of it is.
	reportBytes = 4 << 10
	reportLine  = 200
)

// progress reports the last line of a running command. Its methods are safe for concurrent use.
type progress struct {
	report func(tool.Progress)

	mu   sync.Mutex // guards what follows
	end  []byte     // of the output
	all  int64      // bytes written
	told int64      // when it was last reported
}

// newProgress makes a progress; nil if nobody wants to know.
func newProgress(report func(tool.Progress)) *progress {
	if report == nil {
		return nil
	}
	return &progress{report: report}
}

// add takes what was written.
func (p *progress) add(data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all += int64(len(data))
	if len(data) >= reportBytes {
		p.end = append(p.end[:0], data[len(data)-reportBytes:]...)
		return
	}
	p.end = append(p.end, data...)
	if far := len(p.end) - reportBytes; far > reportBytes {
		p.end = append(p.end[:0], p.end[far:]...)
	}
}

// run reports until ctx or the command is over.
func (p *progress) run(ctx context.Context, e *execution) error {
	ticks := time.NewTicker(reportEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.process.Gone():
			return nil
		case <-ticks.C:
		}
		if report, is := p.next(); is {
			p.report(report)
		}
	}
}

// next is the next report, if there is anything to report.
func (p *progress) next() (tool.Progress, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == p.told {
		return tool.Progress{}, false
	}
	p.told = p.all
	return tool.Progress{Done: float64(p.all), Message: lastLine(p.end)}, true
}

// lastLine is the last line of an output in which something stands, as it would be shown.
func lastLine(end []byte) string {
	for _, line := range backward(output.Shown(end)) {
		line = strings.TrimSpace(strings.Map(func(r rune) rune {
			if r == '\t' {
				return ' '
			}
			return r
		}, line))
		if line == "" {
			continue
		}
		if len(line) > reportLine {
			line = line[:reportLine]
			for !utf8.ValidString(line) {
				line = line[:len(line)-1]
			}
			line += "…"
		}
		return line
	}
	return ""
}

func backward(text string) []string {
	lines := strings.Split(text, "\n")
	for i, j := 0, len(lines)-1; i < j; i, j = i+1, j-1 {
		lines[i], lines[j] = lines[j], lines[i]
	}
	return lines
}
