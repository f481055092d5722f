package config

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Options says what to load. The zero value loads for the working directory of
// the process, without built-ins, and trusts no project's file.
type Options struct {
	// Dir is where the work is; empty for the working directory of the process.
	Dir string
	// File names the file to use in place of the project's, relative to Dir. Empty
	// for TOOLHOST_CONFIG, and if that is empty as well the file is discovered.
	File string
	// Builtins are the names of the built-in plugins.
	Builtins []string
	// TrustedDigest returns the digest that the user trusts the file at path to
	// have, or nothing. It is asked about a project's file only. nil trusts none.
	TrustedDigest func(ctx context.Context, path string) (string, error)
	// TrustedContent returns the content of which TrustedDigest gave the digest, or nil
	// if it is not known. It is asked about a file that changed since, of which what it
	// denied then is denied as well as what it denies now. nil knows none.
	TrustedContent func(ctx context.Context, path string) ([]byte, error)
	// Hold has a file that changed be in effect as it was trusted, where TrustedContent
	// knows that, with what it denies now (law 40). It is for a program that runs while
	// the file changes.
	Hold bool
	// Getenv reads the environment; nil for [os.Getenv].
	Getenv func(name string) string
}

// Load reads the files and validates them. What is wrong in a file is an
// [Error]; every other error says which file cannot be read. ctx bounds the call
// of TrustedDigest.
//
// A project's file that is not trusted is read all the same, and a mistake in it is
// an error: what it denies could not be told otherwise.
func Load(ctx context.Context, options Options) (*Config, error) {
	l, err := newLoader(options)
	if err != nil {
		return nil, err
	}
	if err := l.read(ctx); err != nil {
		return nil, err
	}
	if err := l.parse(); err != nil {
		return nil, err
	}
	locations, err := l.locations()
	if err != nil {
		return nil, err
	}
	audit := l.audit()
	if err := l.mistakes(); err != nil {
		return nil, err
	}
	c := &Config{Locations: locations, Audit: audit, Notices: l.notices, dir: l.dir}
	for _, s := range l.sources() {
		c.Files = append(c.Files, s.File)
	}
	return c, nil
}

// loader is one Load.
type loader struct {
	options Options
	dir     string // absolute
	user    *source
	main    *source   // the project's file, if one is trusted, or the named one
	without []*source // the project's files below that one which are not trusted
	before  []*source // of those that changed, what was trusted
	decoder *decoder
	found   mistakes
	notices []string
}

func newLoader(options Options) (*loader, error) {
	if options.Getenv == nil {
		options.Getenv = os.Getenv
	}
	dir, err := filepath.Abs(options.Dir)
	if err != nil {
		return nil, fmt.Errorf("working directory is unknown: %w", err)
	}
	l := &loader{options: options, dir: dir}
	home := options.Getenv("HOME")
	if !filepath.IsAbs(home) {
		home = ""
	}
	l.decoder = &decoder{builtins: slices.Sorted(slices.Values(options.Builtins)), home: home, mistakes: &l.found}
	return l, nil
}

// sources are the files that were read, in order.
func (l *loader) sources() []*source {
	all := append([]*source{l.user}, l.without...)
	return slices.DeleteFunc(append(all, l.main), func(s *source) bool { return s == nil })
}

// read finds and reads the files and says which of them are trusted.
func (l *loader) read(ctx context.Context) error {
	if path := l.userPath(); path != "" {
		s, err := readSource(path, UserFile)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if l.user = s; s != nil {
			s.Trusted = true
		}
	}
	if named := l.namedPath(); named != "" {
		s, err := readSource(named, NamedFile)
		if err != nil {
			return err
		}
		s.Trusted, l.main = true, s
		return nil
	}
	if err := discover(l.dir, FileName, func(path string) (bool, error) { return l.readProject(ctx, path) }); err != nil {
		return err
	}
	if l.main == nil && len(l.without) == 0 {
		l.overlooked()
	}
	return nil
}

// overlooked says where there is a file that may be meant for a project's, and is none.
// What cannot be looked at is not said.
func (l *loader) overlooked() {
	_ = discover(l.dir, otherFileName, func(path string) (bool, error) {
		l.notices = append(l.notices, fmt.Sprintf("%s is not read: a project's file is named %s", shorten(l.dir, path), FileName))
		return true, nil
	})
	if above, err := nearestWith(l.dir, FileName); err == nil && above != "" {
		l.notices = append(l.notices, fmt.Sprintf("%s is not read: without a .git no file above the working directory is; if it is yours, run toolhost in its directory, or name it with -c",
			filepath.Join(above, FileName)))
	}
}

// readProject reads a file of the project, and says whether it is the one to use. One
// that is not trusted must not hide one above it that is: the work is as if it were
// not there, except that what it denies is denied (law 40).
func (l *loader) readProject(ctx context.Context, path string) (bool, error) {
	if len(l.without) == maxUntrusted {
		return false, fmt.Errorf("%s is the %dth file above the working directory that is not trusted: trust the nearest, or remove some", path, maxUntrusted+1)
	}
	s, err := readSource(path, ProjectFile)
	if err != nil {
		return false, err
	}
	if err := l.trust(ctx, s); err != nil {
		return false, err
	}
	if !s.Trusted { // and l.main what it was, if that is held
		l.without = append(l.without, s)
		return l.main != nil, nil
	}
	l.main = s
	return true, nil
}

// userPath is where the user's own file would be, or nothing.
func (l *loader) userPath() string {
	base := l.options.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(base) {
		if l.decoder.home == "" {
			return ""
		}
		base = filepath.Join(l.decoder.home, ".config")
	}
	return filepath.Join(base, "toolhost", "config.yaml")
}

// namedPath is the file that is used in place of the project's, or nothing.
func (l *loader) namedPath() string {
	named := cmp.Or(l.options.File, l.options.Getenv("TOOLHOST_CONFIG"))
	if named == "" || filepath.IsAbs(named) {
		return named
	}
	return filepath.Join(l.dir, named)
}

// trust decides whether a project's file is in effect (law 40).
func (l *loader) trust(ctx context.Context, s *source) error {
	digest := ""
	if l.options.TrustedDigest != nil {
		var err error
		if digest, err = l.options.TrustedDigest(ctx, s.Path); err != nil {
			return fmt.Errorf("trust in %s is unknown: %w", s.Path, err)
		}
	}
	switch digest {
	case s.Digest:
		s.Trusted = true
	case "":
		l.notices = append(l.notices, fmt.Sprintf("%s is not trusted: only its denies hold; to use it, run: %s", shorten(l.dir, s.Path), trustCommand(s)))
	default:
		if err := l.trustedBefore(ctx, s, digest); err != nil {
			return err
		}
		if l.main != nil {
			l.notices = append(l.notices, fmt.Sprintf("%s has changed since it was trusted, and is in effect as it was then, with what it denies now", shorten(l.dir, s.Path)))
			return nil
		}
		l.notices = append(l.notices, fmt.Sprintf("%s has changed since it was trusted: only its denies hold, then and now; to see what changed, run: %s; to use it, run: %s",
			shorten(l.dir, s.Path), trustCommand(s, "--show"), trustCommand(s)))
	}
	return nil
}

// trustedBefore reads what a file that changed was when it was trusted. Whoever
// changes it takes back none of its denies. What is held is the file in effect.
func (l *loader) trustedBefore(ctx context.Context, s *source, digest string) error {
	if l.options.TrustedContent == nil {
		return nil
	}
	data, err := l.options.TrustedContent(ctx, s.Path)
	if err != nil {
		return fmt.Errorf("trust in %s is unknown: %w", s.Path, err)
	}
	if sum := sha256.Sum256(data); l.options.Hold && hex.EncodeToString(sum[:]) == digest {
		l.main = &source{File: s.File, dir: s.dir, data: data, note: asTrusted}
		l.main.Digest, l.main.Trusted = digest, true
		return nil
	}
	before := &source{File: s.File, dir: s.dir, data: data, note: asTrusted}
	before.parse(new(mistakes)) // it was right when it was trusted
	if before.root != nil {
		l.before = append(l.before, before)
	}
	return nil
}

// trustCommand is the command that trusts the file, or with --show shows what that
// would do, as a shell reads it.
func trustCommand(s *source, flags ...string) string {
	path := s.Path
	if strings.ContainsFunc(path, func(r rune) bool { return !isLetter(r) && !strings.ContainsRune("0123456789/._-+@%", r) }) {
		path = "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return strings.Join(append([]string{"toolhost", "trust"}, append(flags, path)...), " ")
}

func (l *loader) parse() error {
	for _, s := range l.sources() {
		s.parse(&l.found)
	}
	return l.mistakes()
}

// mistakes is the error of what was found wrong so far, or nil.
func (l *loader) mistakes() error { return l.found.err(l.dir, l.sources()...) }
