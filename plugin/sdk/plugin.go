package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolhost/toolhost/service"
)

// Version is the version of this package, which a plugin tells its host.
const Version = "0.1.0"

// Plugin is what [Serve] serves.
type Plugin struct {
	// Name is shown to people. The key in the configuration is what counts.
	Name string
	// Version is the plugin's own; it is shown to people.
	Version string
	// Needs are the services without which the plugin cannot work. The host
	// refuses to start it when one of them is not granted.
	Needs []Service
	// Settings is a value of the type of the plugin's settings, from which their
	// schema is derived, or a json.RawMessage that is the schema. Nil means that
	// there are none; the host then refuses any.
	Settings any
	// Activate is called once, when the process was started for a Location. It
	// registers the tools, then or later, and captures the services that they use.
	// The plugin is ready when it returns; an error says why it is not. ctx ends
	// when Activate must be done.
	Activate func(ctx context.Context, loc Location) error
	// Drain, if it is not nil, is called before the process ends, when no call is
	// running any more. ctx bounds it; the process is ended in any case.
	Drain func(ctx context.Context) error
}

// A Service is something that the host can grant.
type Service string

// The services.
const (
	// FileSystemRead is [Location.FileSystem].
	FileSystemRead = Service(service.GrantFileSystemRead)
	// FileSystemWrite is [Location.FileSystemWrite].
	FileSystemWrite = Service(service.GrantFileSystemWrite)
	// Permissions is [Location.Permission].
	Permissions = Service(service.GrantPermission)
	// Commands is [Location.Process].
	Commands = Service(service.GrantProcess)
)

func (p Plugin) check() error {
	if p.Name == "" {
		return errors.New("the plugin has no Name")
	}
	if p.Activate == nil {
		return fmt.Errorf("plugin %s has no Activate", p.Name)
	}
	return nil
}

// settingsSchema is the schema that Settings stands for, or nil.
func (p Plugin) settingsSchema() (json.RawMessage, error) {
	switch settings := p.Settings.(type) {
	case nil:
		return nil, nil
	case json.RawMessage:
		return settings, nil
	default:
		schema, err := jsonschema.ForType(reflect.TypeOf(settings), encodings())
		if err != nil {
			return nil, fmt.Errorf("schema of the settings of %s: %w", p.Name, err)
		}
		return json.Marshal(schema)
	}
}

// Location is where a plugin was activated: what it learns, and what it may use.
type Location struct {
	// Name is the Location's name, and Root the absolute path of its directory. A
	// plugin that was granted a filesystem uses that, not the path.
	Name, Root string
	// Plugin is the plugin's key in the configuration. The canonical ids of its
	// tools begin with it.
	Plugin string
	// Tools registers tools.
	Tools Registrar
	// Log writes to the host's log. It never blocks.
	Log *slog.Logger

	settings   json.RawMessage
	fileSystem *FileSystem
	writer     *FileSystemWriter
	permission *Permission
	process    *Processes
}

// Settings decodes the settings of the configuration into v, a pointer. They fit
// the schema. Without settings v stays as it is.
func (l Location) Settings(v any) error {
	if len(l.settings) == 0 {
		return nil
	}
	if err := decode(l.settings, v, true); err != nil {
		return fmt.Errorf("settings of %s: %w", l.Plugin, err)
	}
	return nil
}

// FileSystem reads the Location's files. Without the grant it is an error that
// says which one is missing.
func (l Location) FileSystem() (*FileSystem, error) {
	if l.fileSystem == nil {
		return nil, &NotGrantedError{Plugin: l.Plugin, Service: FileSystemRead}
	}
	return l.fileSystem, nil
}

// FileSystemWrite changes the Location's files. Without the grant it is an error that
// says which one is missing.
func (l Location) FileSystemWrite() (*FileSystemWriter, error) {
	if l.writer == nil {
		return nil, &NotGrantedError{Plugin: l.Plugin, Service: FileSystemWrite}
	}
	return l.writer, nil
}

// Permission asks for permissions. Without the grant it is an error that says
// which one is missing.
func (l Location) Permission() (*Permission, error) {
	if l.permission == nil {
		return nil, &NotGrantedError{Plugin: l.Plugin, Service: Permissions}
	}
	return l.permission, nil
}

// Process runs commands in the Location. Without the grant it is an error that says which
// one is missing.
func (l Location) Process() (*Processes, error) {
	if l.process == nil {
		return nil, &NotGrantedError{Plugin: l.Plugin, Service: Commands}
	}
	return l.process, nil
}

// NotGrantedError says which grant is missing.
type NotGrantedError struct {
	Plugin  string
	Service Service
}

func (e *NotGrantedError) Error() string {
	return fmt.Sprintf("plugin %s was not granted %s: add it to its grants in the configuration", e.Plugin, e.Service)
}
