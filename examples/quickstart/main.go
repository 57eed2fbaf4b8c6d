// Quickstart runs the Go files below a folder through a small pipeline. Each file is a job, moved
// by a worker from queue to queue; one more job depends on all files and prints a report:
//
//	hash -> count -> (all complete) -> report
//
// The program needs no Redis:
//
//	go run ./examples/quickstart [-max files] [folder]
//
// With REDIS_URL set, as in redis://localhost:6379, it uses that server instead, in a separate
// namespace.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/qless/qless-go/examples/internal/connect"
)

// namespace keeps the quickstart's jobs apart from other jobs on the server.
const namespace = "quickstart:ql:"

func main() {
	limit := flag.Int("max", 200, "read at most this many files")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: quickstart [-max files] [folder]")
		flag.PrintDefaults()
	}
	flag.Parse()
	folder := "."
	if flag.NArg() > 0 {
		folder = flag.Arg(0)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, folder, *limit)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// run runs the folder's files through a pipeline, and prints a report.
func run(ctx context.Context, out io.Writer, folder string, limit int) error {
	paths, leftOut, err := goFiles(folder, limit)
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return fmt.Errorf("no Go files below %s", folder)
	}
	client, disconnect, err := connect.Client(ctx, out, namespace)
	if err != nil {
		return err
	}
	defer disconnect()

	p, err := newPipeline(client, out)
	if err != nil {
		return err
	}
	err = p.run(ctx, paths, leftOut)
	if err != nil && ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	return errors.Join(err, p.tidy(ctx))
}

// goFiles returns the paths of the first Go files below a folder, and the number of files beyond
// the limit. Directories and special files are skipped.
func goFiles(folder string, limit int) (paths []string, leftOut int, err error) {
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		isFile := entry.Type()&^fs.ModeSymlink == 0
		switch {
		case !isFile || filepath.Ext(path) != ".go":
		case len(paths) < limit:
			paths = append(paths, path)
		default:
			leftOut++
		}
		return nil
	})
	return paths, leftOut, err
}
