package registry

import (
	"log/slog"
	"math"
	"strings"
	"unicode"

	"golang.org/x/time/rate"

	"github.com/toolhost/toolhost/tool"
)

// How often the caller hears of a call's progress at most, and how much of a
// message.
const (
	progressASecond = 20
	progressBurst   = 20
	maxProgressText = 1 << 10
)

// progress passes on as much as a person could follow, always growing, and always
// the last of it. It is for one goroutine.
type progress struct {
	to    func(tool.Progress) // may be nil; nil also after it panicked
	log   *slog.Logger
	limit *rate.Limiter
	last  float64
	held  *tool.Progress // the last one, if it was not passed on
}

func newProgress(to func(tool.Progress), log *slog.Logger) *progress {
	if to == nil {
		return &progress{}
	}
	return &progress{to: to, log: log, limit: rate.NewLimiter(progressASecond, progressBurst), last: math.Inf(-1)}
}

// report takes one report. One that does not grow, or is no number, is dropped.
func (p *progress) report(report tool.Progress) {
	if p.to == nil || !(report.Done > p.last) || math.IsInf(report.Done, 0) {
		return
	}
	p.last = report.Done
	if math.IsNaN(report.Total) || math.IsInf(report.Total, 0) || report.Total < 0 {
		report.Total = 0
	}
	if !p.limit.Allow() {
		p.held = &report
		return
	}
	p.held = nil
	p.pass(report)
}

// flush passes on what was held back.
func (p *progress) flush() {
	if held := p.held; held != nil {
		p.held = nil
		p.pass(*held)
	}
}

// pass calls the caller's function. One that panics is called no more, and harms no
// call.
func (p *progress) pass(report tool.Progress) {
	defer func() {
		if v := recover(); v != nil {
			p.to, p.held = nil, nil
			p.log.Error("the receiver of progress panicked", slog.Any("panic", v))
		}
	}()
	report.Message = oneLine(report.Message)
	p.to(report)
}

// oneLine is a text that is safe to show in a line.
func oneLine(text string) string {
	if len(text) > maxProgressText {
		text = text[:maxProgressText]
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, clean(text))
}
