// Quickstart is a small pipeline over the Go files below a folder. Each file is a job that
// goes from queue to queue, and one job that depends on all of them reports at the end:
//
//	hash -> count -> (all complete) -> report
//
// It needs no Redis:
//
//	go run ./examples/quickstart [-max files] [folder]
//
// With REDIS_URL set, as in redis://localhost:6379, it runs on that server instead, apart
// from other jobs there.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// namespace keeps the quickstart's jobs apart from those of anyone else on the server.
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

// run puts the folder's files through a pipeline and prints what becomes of them.
func run(ctx context.Context, out io.Writer, folder string, limit int) error {
	paths, leftOut, err := goFiles(folder, limit)
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return fmt.Errorf("no Go files below %s", folder)
	}
	client, disconnect, err := connect(ctx, out)
	if err != nil {
		return err
	}
	defer disconnect()

	p := newPipeline(client, out)
	err = p.run(ctx, paths, leftOut)
	if err != nil && ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	return errors.Join(err, p.tidy(ctx))
}

// connect returns a client of the server at REDIS_URL, or of one in memory, and how to end
// it.
func connect(ctx context.Context, out io.Writer) (*qless.Client, func(), error) {
	address := os.Getenv("REDIS_URL")
	if address == "" {
		fmt.Fprintln(out, "Redis: in memory (set REDIS_URL to use a server)")
		server, err := qlesstest.Start(qless.WithNamespace(namespace))
		if err != nil {
			return nil, nil, err
		}
		return server.Client(), server.Close, nil
	}
	client, err := qless.Dial(ctx, address, qless.WithNamespace(namespace))
	if err != nil {
		return nil, nil, err
	}
	fmt.Fprintln(out, "Redis:", withoutPassword(address))
	return client, func() { _ = client.Close() }, nil
}

func withoutPassword(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return "at REDIS_URL"
	}
	return parsed.Redacted()
}

// goFiles returns the paths of the first Go files below a folder, and how many more there
// are than the limit. What is no file, such as a socket of that name, is passed over.
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
