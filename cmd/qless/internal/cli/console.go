package cli

import (
	"io"

	"github.com/spf13/pflag"
)

// A console has the streams of a run of the program, and the flags for what is printed and asked.
type console struct {
	in       io.Reader
	out, err io.Writer

	json, jids  bool
	yes, dryRun bool

	watch *watch
}

// addFlags adds the flags of all commands.
func (c *console) addFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&c.json, "json", false, "print JSON")
	flags.BoolVar(&c.jids, "jids", false, "print only the jids, one a line")
	flags.BoolVarP(&c.yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&c.dryRun, "dry-run", false, "print what would be done, and do nothing")
}
