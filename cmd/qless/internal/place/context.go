package place

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/usage"
	"github.com/qless/qless-go/internal/dial"
)

// ContextCommand returns the commands for contexts.
func (p *Place) ContextCommand() *cobra.Command {
	return usage.Group("context", "Name the servers that you work with",
		&cobra.Command{
			Use:   "ls",
			Short: "List the contexts",
			RunE:  func(*cobra.Command, []string) error { return p.listContexts() },
		},
		&cobra.Command{
			Use:               "show [NAME]",
			Short:             "Show a context, or the server in use and where its name comes from",
			ValidArgsFunction: p.completeContext,
			RunE:              func(_ *cobra.Command, args []string) error { return p.showContext(args) },
		},
		p.contextSetCommand(),
		p.contextUseCommand(),
		&cobra.Command{
			Use:               "rm NAME",
			Short:             "Remove a context",
			ValidArgsFunction: p.completeContext,
			RunE: func(_ *cobra.Command, args []string) error {
				return p.removeContext(args[0])
			},
		},
	)
}

func (p *Place) contextSetCommand() *cobra.Command {
	var description string
	command := &cobra.Command{
		Use:               "set NAME",
		Short:             "Add a context, or change one",
		ValidArgsFunction: p.completeContext,
		RunE: func(command *cobra.Command, args []string) error {
			return p.setContext(command, args[0], description)
		},
	}
	command.Flags().StringVar(&description, "description", "", "a note for yourself and others")
	return command
}

func (p *Place) contextUseCommand() *cobra.Command {
	var none bool
	command := &cobra.Command{
		Use:               "use NAME",
		Short:             "Use a context from now on",
		ValidArgsFunction: p.completeContext,
		Args: func(_ *cobra.Command, args []string) error {
			if none != (len(args) == 0) || len(args) > 1 {
				return errors.New("want the name of one context, or --none")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			return p.useContext(strings.Join(args, ""))
		},
	}
	command.Flags().BoolVar(&none, "none", false, "stop using a context")
	return command
}

// A shownContext is the printed form of a context.
type shownContext struct {
	Name        string `json:"name,omitempty"`
	Current     bool   `json:"current"`
	Redis       string `json:"redis"` // without its password
	Namespace   string `json:"namespace"`
	Description string `json:"description,omitempty"`
	From        string `json:"from,omitempty"` // the source of the server's name
}

func (f *contextFile) shown(name string) shownContext {
	c := f.Contexts[name]
	return shownContext{
		Name: name, Current: name == f.Current, Redis: masked(c.Redis),
		Namespace: cmp.Or(c.Namespace, qless.DefaultNamespace), Description: c.Description,
	}
}

func (f *contextFile) list() []shownContext {
	list := []shownContext{}
	for _, name := range f.names() {
		list = append(list, f.shown(name))
	}
	return list
}

func (p *Place) listContexts() error {
	file, err := p.loadContexts()
	if err != nil {
		return err
	}
	list := file.list()
	return p.Print(list, func() *out.Table {
		t := &out.Table{
			Header: []string{"", "CONTEXT", "REDIS", "NAMESPACE", "DESCRIPTION"},
			Empty:  "no contexts",
		}
		for _, c := range list {
			mark := ""
			if c.Current {
				mark = "*"
			}
			t.Add(mark, c.Name, c.Redis, c.Namespace, c.Description)
		}
		return t
	})
}

func (p *Place) showContext(args []string) error {
	shown, err := p.contextOrPlace(args)
	if err != nil {
		return err
	}
	return p.Print(shown, func() *out.Table {
		t := out.NewTable("FIELD  VALUE", "")
		for _, row := range [][2]string{
			{"context", shown.Name}, {"redis", shown.Redis}, {"namespace", shown.Namespace},
			{"description", shown.Description}, {"named by", shown.From},
		} {
			if row[1] != "" {
				t.Add(row[0], row[1])
			}
		}
		return t
	})
}

// contextOrPlace returns the named context, or the server in use.
func (p *Place) contextOrPlace(args []string) (shownContext, error) {
	if len(args) == 0 {
		where, err := p.Where()
		return shownContext{
			Redis: masked(cmp.Or(where.Redis, defaultURL)), From: where.from,
			Namespace: cmp.Or(where.Namespace, qless.DefaultNamespace),
		}, err
	}
	file, err := p.loadContexts()
	if err != nil {
		return shownContext{}, err
	}
	if _, found := file.Contexts[args[0]]; !found {
		return shownContext{}, noContext(args[0])
	}
	return file.shown(args[0]), nil
}

func (p *Place) setContext(command *cobra.Command, name, description string) error {
	if strings.TrimSpace(name) != name || name == "" {
		return out.Error(errors.New("a context needs a name, without spaces around it"))
	}
	file, err := p.loadContexts()
	if err != nil {
		return err
	}
	c, found := file.Contexts[name]
	if p.redis == "-" {
		if p.redis, err = firstLine(p.In); err != nil {
			return err
		}
	}
	c.Redis = cmp.Or(p.redis, c.Redis)
	if err := checkURL(c.Redis); err != nil {
		return out.Error(err)
	}
	if command.Flags().Changed("namespace") {
		c.Namespace = p.namespace
	}
	if command.Flags().Changed("description") {
		c.Description = description
	}
	verb := "added"
	if found {
		verb = "changed"
	}
	file.Contexts[name] = c
	return p.saveContexts(file, verb+" context "+name)
}

// checkURL rejects text that can't be the URL of a server.
func checkURL(redis string) error {
	if redis == "" {
		return errors.New("a context needs the URL of a server: add --redis")
	}
	if _, problem := dial.ParseURL(redis); problem != nil {
		return problem
	}
	return nil
}

func firstLine(in io.Reader) (string, error) {
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && err != io.EOF {
		return "", err
	}
	return strings.TrimSpace(line), nil
}

func (p *Place) useContext(name string) error {
	file, err := p.loadContexts()
	if err != nil {
		return err
	}
	if _, found := file.Contexts[name]; !found && name != "" {
		return noContext(name)
	}
	file.Current = name
	if name == "" {
		return p.saveContexts(file, "no context is in use")
	}
	return p.saveContexts(file, "using context "+name)
}

func (p *Place) removeContext(name string) error {
	file, err := p.loadContexts()
	if err != nil {
		return err
	}
	if _, found := file.Contexts[name]; !found {
		return noContext(name)
	}
	if goOn, err := p.Confirm("remove context " + name); !goOn {
		return err
	}
	delete(file.Contexts, name)
	if file.Current == name {
		file.Current = ""
	}
	return p.saveContexts(file, "removed context "+name)
}

func (p *Place) saveContexts(file *contextFile, done string) error {
	if p.DryRun {
		fmt.Fprintln(p.Err, "nothing was written")
		return p.PrintJSON(file.list())
	}
	if err := file.save(); err != nil {
		return err
	}
	fmt.Fprintln(p.Err, done)
	return p.PrintJSON(file.list())
}

func (p *Place) completeContext(
	_ *cobra.Command, args []string, _ string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	file, err := p.loadContexts()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return file.names(), cobra.ShellCompDirectiveNoFileComp
}
