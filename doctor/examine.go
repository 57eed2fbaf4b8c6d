package doctor

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Examine reads a whole namespace and reports damage and dangers: misplaced jobs, set members
// without jobs, inconsistent locks, dependencies, tags and failure groups, leftovers of workers and
// jobs that are gone, and dangerous settings of the namespace and the server.
//
// Examine may run on a server in use. Keys are read by SCAN and similar commands, a Step at a time
// with a Pause after each, and one script checks up to 100 jobs. That script reads all facts behind
// a finding atomically, so concurrent work is never mistaken for damage. A job that keeps moving
// may be examined twice, or only in some of its places.
//
// A plain job costs about 10 commands on the server. [EstimateExam] estimates the time of a whole
// exam. Examine keeps the jid of each failed job in memory and changes nothing. The user needs
// permission for SCAN, TYPE and other commands: see the page docs/doctor.md.
//
// If the exam fails or the context ends, Examine returns the report so far with the error:
// [qless.ErrUnavailable] if the server can't be reached, [qless.ErrInvalid] for invalid options.
func Examine(ctx context.Context, rdb redis.UniversalClient, options Options) (*Report, error) {
	reports, err := ExamineAll(ctx, rdb, options, options.Namespace)
	if len(reports) == 0 {
		return nil, err
	}
	return reports[0], err
}

// ExamineAll is [Examine] for several namespaces, such as the results of inspect.Namespaces. It
// returns one report per namespace, in the same order, and walks through the keys of each server
// once. Findings about a server are in the report of the server's first namespace.
// Options.Namespace is ignored, and MaxFindings applies to each namespace.
func ExamineAll(
	ctx context.Context, rdb redis.UniversalClient, options Options, namespaces ...string,
) ([]*Report, error) {
	var reports []*Report
	var servers []redis.UniversalClient
	byServer := map[redis.UniversalClient][]*exam{}
	for _, namespace := range namespaces {
		options.Namespace = namespace
		e, err := newExam(ctx, rdb, options)
		if err != nil {
			return reports, err
		}
		reports = append(reports, e.report)
		if byServer[e.rdb] == nil {
			servers = append(servers, e.rdb)
		}
		byServer[e.rdb] = append(byServer[e.rdb], e)
	}
	for _, server := range servers {
		began := time.Now()
		err := newWalk(byServer[server]).all(ctx)
		for _, e := range byServer[server] {
			e.report.Took = time.Since(began)
		}
		if err != nil {
			return reports, coded(err)
		}
	}
	return reports, nil
}
