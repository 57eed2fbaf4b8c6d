package place

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/qless/qless-go"
)

// A contextFile holds the contexts of a user by name.
type contextFile struct {
	Current  string                  `json:"current,omitempty"`
	Contexts map[string]namedContext `json:"contexts"`
}

type namedContext struct {
	Redis       string `json:"redis"`
	Namespace   string `json:"namespace,omitempty"`
	Description string `json:"description,omitempty"`
}

func noContext(name string) error {
	return &qless.Error{Code: qless.ErrNotFound,
		Message: fmt.Sprintf("no context %q: qless context ls lists them", name)}
}

// contextPath returns the path of the file of contexts.
func contextPath() (string, error) {
	folder := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(folder) { // the XDG specification says to ignore relative paths
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		folder = filepath.Join(home, ".config")
	}
	return filepath.Join(folder, "qless", "contexts.json"), nil
}

// loadContexts reads the contexts. Without a file or a home, it returns no contexts.
func (p *Place) loadContexts() (*contextFile, error) {
	file := &contextFile{Contexts: map[string]namedContext{}}
	path, err := contextPath()
	if err != nil {
		return file, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return file, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, file); err != nil {
		return nil, fmt.Errorf("%s can't be read: %s", path, withoutValues(err))
	}
	if file.Contexts == nil {
		file.Contexts = map[string]namedContext{}
	}
	return file, nil
}

// withoutValues describes an error in JSON without quoting the JSON, perhaps with a password.
func withoutValues(err error) string {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Sprintf("it is not JSON: there is an error at byte %d", syntax.Offset)
	}
	var misfit *json.UnmarshalTypeError
	if errors.As(err, &misfit) {
		return fmt.Sprintf("%s must be %s", misfit.Field, misfit.Type)
	}
	return "it is not JSON"
}

// save writes the file atomically. No other user can read the file.
func (f *contextFile) save() error {
	path, err := contextPath()
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	draft, err := os.CreateTemp(filepath.Dir(path), "contexts-*.json") // with mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(draft.Name()) }()
	_, err = draft.Write(append(text, '\n'))
	if err == nil {
		err = draft.Sync()
	}
	if err := errors.Join(err, draft.Close()); err != nil {
		return err
	}
	return os.Rename(draft.Name(), path)
}

func (f *contextFile) names() []string {
	return slices.Sorted(maps.Keys(f.Contexts))
}
