//go:build interop

package workqueue_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/compat/workqueue"
)

// interopPatience limits how long all items of one test may take.
const interopPatience = 3 * time.Minute

// A peer is a client in a separate process.
type peer struct {
	name    string
	command []string
	env     []string
	old     bool // leases and completes like 0.1.5
	cleans  bool
}

// install installs the peers and returns them.
func install(t *testing.T) (ours, oursOld, rust, python, node peer) {
	t.Helper()
	root := must(filepath.Abs("../.."))(t)
	output, err := exec.Command(filepath.Join(root, "tests/interop/workqueue/install")).CombinedOutput()
	require.NoError(t, err, "tests/interop/workqueue/install could not get the other clients:\n%s", output)
	self := must(os.Executable())(t)
	installed := filepath.Join(root, ".cache/interop-workqueue")
	scripts := filepath.Join(root, "tests/interop/workqueue")
	ours = peer{name: "ours", command: []string{self}, env: []string{"WORKQUEUE_PEER=new"}, cleans: true}
	oursOld = ours
	oursOld.env = []string{"WORKQUEUE_PEER=old leases"}
	rust = peer{name: "rust", command: []string{filepath.Join(installed, "rust/debug/peer")}}
	python = peer{
		name:    "python",
		command: []string{filepath.Join(installed, "venv/bin/python"), filepath.Join(scripts, "peer.py")},
		old:     true,
		cleans:  true,
	}
	node = peer{
		name:    "node",
		command: []string{"node", filepath.Join(scripts, "peer.js")},
		env:     []string{"NODE_PATH=" + filepath.Join(installed, "node/node_modules")},
		old:     true,
		cleans:  true,
	}
	return ours, oursOld, rust, python, node
}

// Each peer adds and runs items and dies at random; some also clean. Every item is completed, and
// exactly one worker is told that its completion was the first. Every peer completes items added by
// others, and no key is left.
func TestSharedWithOtherClients(t *testing.T) {
	ours, oursOld, rust, python, node := install(t)
	for _, c := range []struct {
		name  string
		peers []peer
		mixed bool
	}{
		{"current", []peer{ours, rust}, false},
		{"python", []peer{oursOld, python}, false},
		{"node", []peer{oursOld, node}, false},
		{"0.1.5", []peer{oursOld, python, node}, false},
		// The other clients do not agree on which completion was first; see docs/workqueue.md.
		{"all", []peer{oursOld, rust, python, node}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &stage{env: newEnv(t), random: newRand(t), items: map[string]*fate{}, mixed: c.mixed}
			s.play(t, c.peers)
		})
	}
}

const (
	itemsOfEach  = 120
	workersEach  = 2
	mostKills    = 30
	leaseSeconds = "2"
)

// A stage is one queue that some peers share.
type stage struct {
	*env
	random *rand.Rand
	mixed  bool

	mu     sync.Mutex
	added  int // by add
	items  map[string]*fate
	kills  int
	ghosts int
	ended  bool // exited workers are not replaced
	failed []string
}

// A fate is the history of an item, as reported by the peers.
type fate struct {
	first  []peer // the peers with a completion reported as the first
	asking int    // the number of workers killed while completing
}

// play lets the peers work until all items are completed, and checks the remaining keys.
func (s *stage) play(t *testing.T, peers []peer) {
	ctx, cancel := context.WithTimeout(t.Context(), interopPatience)
	defer cancel()
	workers, stopWorkers := context.WithCancel(ctx)
	var working, cleaning sync.WaitGroup
	for _, p := range peers {
		for range workersEach {
			working.Go(func() { s.workUntil(workers, p) })
		}
	}
	cleaners, stopCleaners := context.WithCancel(ctx)
	for _, p := range peers {
		if p.cleans {
			cleaning.Go(func() { s.clean(cleaners, p) })
		}
	}
	s.workOff(ctx, t, peers)
	for ctx.Err() == nil && s.problem() == "" && !s.allWorkedForOthers(peers) {
		s.workOff(ctx, t, peers) // some have started slowly
	}
	stopCleaners()
	cleaning.Wait()
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	stopWorkers()
	working.Wait()
	require.Empty(t, s.problem())

	s.judge(t, peers)
	require.Eventually(t, func() bool { // leases of killed workers end
		s.drain()
		return len(s.rdb.Keys(ctx, "*").Val()) == 0
	}, patience, 20*time.Millisecond, "keys are left")
}

// workOff lets each peer add items, and waits until all are completed.
func (s *stage) workOff(ctx context.Context, t *testing.T, peers []peer) {
	var adding sync.WaitGroup
	for _, p := range peers {
		adding.Go(func() { s.add(ctx, p) })
	}
	adding.Wait()
	require.Eventually(t, func() bool {
		keys, err := s.rdb.Keys(ctx, "P:item:*").Result()
		return err == nil && len(keys) == 0 || s.problem() != ""
	}, interopPatience, 20*time.Millisecond, "items are left")
}

// allWorkedForOthers reports whether each peer has completed an item added by another peer.
func (s *stage) allWorkedForOthers(peers []peer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	helpers := map[string]bool{}
	for id, fate := range s.items {
		for _, p := range fate.first {
			helpers[p.name] = helpers[p.name] || !strings.HasPrefix(id, p.name)
		}
	}
	return !slices.ContainsFunc(peers, func(p peer) bool { return !helpers[p.name] })
}

// judge checks the fates of the items.
func (s *stage) judge(t *testing.T, peers []peer) {
	require.Len(t, s.items, s.added, "items that were added")
	lost, twice := 0, 0
	completed := map[string]int{}
	for id, fate := range s.items {
		if len(fate.first) == 0 {
			require.Positive(t, fate.asking, "%s was completed, but no worker reported it", id)
			lost++
		}
		kinds := map[bool]int{}
		for _, p := range fate.first {
			kinds[p.old]++
			completed[p.name]++
		}
		if len(fate.first) > 1 {
			twice++
			for _, p := range fate.first {
				require.NotEqual(t, "ours", p.name, "%s was completed first by %v", id, fate.first)
			}
			require.True(t, s.mixed, "%s was completed first by %v", id, fate.first)
		}
		require.LessOrEqual(t, max(kinds[true], kinds[false]), 1, "%s: by clients of one kind", id)
	}
	t.Logf("%d items, %d kills, completed by %v; %d answers died with their workers, "+
		"%d ids without data were worked, %d items had two firsts of two kinds",
		len(s.items), s.kills, completed, lost, s.ghosts, twice)
	require.Positive(t, s.kills)
	require.True(t, s.allWorkedForOthers(peers), "one completed nothing that others had added")
}

// start starts a peer in a role, and reads its output line by line until it ends.
func (s *stage) start(
	ctx context.Context, p peer, input io.Reader, hear func(words []string) (kill bool), role ...string,
) error {
	_, port, err := net.SplitHostPort(s.server.Addr())
	if err != nil {
		return err
	}
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	args := slices.Concat(p.command[1:], []string{port, "P"}, role)
	command := exec.CommandContext(ctx, p.command[0], args...)
	command.Env = append(os.Environ(), p.env...)
	command.Stdin = input
	var problem strings.Builder
	command.Stderr = &problem
	output, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if words := strings.Fields(lines.Text()); len(words) > 0 && hear(words) {
			kill()
		}
	}
	err = command.Wait()
	if ctx.Err() != nil {
		return nil // it was killed
	}
	if err != nil {
		return fmt.Errorf("%s %v: %w\n%s", p.name, role, err, &problem)
	}
	return nil
}

// fail notes a fault of a peer.
func (s *stage) fail(err error) {
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.failed = append(s.failed, err.Error())
	}
}

func (s *stage) problem() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.failed, "\n")
}

func (s *stage) add(ctx context.Context, p peer) {
	s.mu.Lock()
	name := fmt.Sprintf("%s-%d", p.name, s.added)
	s.added += itemsOfEach
	s.mu.Unlock()
	s.fail(s.start(ctx, p, nil, func(words []string) bool {
		if words[0] == "added" {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.fate(words[1])
		}
		return false
	}, "add", name, fmt.Sprint(itemsOfEach)))
}

// fate returns the fate of an item. The mutex is held.
func (s *stage) fate(id string) *fate {
	if s.items[id] == nil {
		s.items[id] = &fate{}
	}
	return s.items[id]
}

// workUntil keeps a worker running until the context ends, replacing killed workers.
func (s *stage) workUntil(ctx context.Context, p peer) {
	for ctx.Err() == nil && s.problem() == "" {
		s.mu.Lock()
		seed := s.random.Int32()
		s.mu.Unlock()
		asking := ""
		s.fail(s.start(ctx, p, nil, func(words []string) bool {
			return s.hear(p, words, &asking)
		}, "work", fmt.Sprint(seed), leaseSeconds))
		if asking != "" {
			s.mu.Lock()
			s.fate(asking).asking++
			s.mu.Unlock()
		}
	}
}

// hear records a line from a worker, and reports whether to kill the worker then. While the worker
// asks for the completion of an item, asking holds its id.
func (s *stage) hear(p peer, words []string, asking *string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch words[0] {
	case "leased":
		if want := "data_of_" + words[1]; len(words) != 3 || words[2] != want {
			s.failed = append(s.failed, fmt.Sprintf("%s reported %q", p.name, words))
		}
	case "completing":
		*asking = words[1]
	case "completed":
		*asking = ""
		if words[2] == "true" {
			fate := s.fate(words[1])
			fate.first = append(fate.first, p)
		}
	case "ghost":
		s.ghosts++
	}
	if s.ended || s.kills >= mostKills || s.random.IntN(15) != 0 {
		return false
	}
	s.kills++
	return true
}

// clean makes a cleaner clean repeatedly until the context ends.
func (s *stage) clean(ctx context.Context, p peer) {
	kinds := []string{"light"}
	if !p.old {
		kinds = append(kinds, "deep")
	}
	lines, say := io.Pipe()
	cleaned := make(chan bool, 1)
	ended := make(chan error, 1)
	go func() {
		err := s.start(context.WithoutCancel(ctx), p, lines, func(words []string) bool {
			if len(words) == 3 && words[1] == "cleaned" {
				cleaned <- true
			}
			return false
		}, "clean")
		ended <- err
		_ = lines.Close()
	}()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		if _, err := fmt.Fprintf(say, "%s:P\n", kinds[i%len(kinds)]); err != nil {
			break
		}
		select {
		case <-cleaned:
		case err := <-ended:
			s.fail(fmt.Errorf("the cleaner of %s has ended: %w", p.name, err))
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
		}
	}
	_ = say.Close()
	s.fail(<-ended)
}

func init() {
	actAsPeer = func() {
		if err := ourPeer(os.Args[1:]); err != nil {
			log.Fatal(err)
		}
	}
}

// ourPeer runs this package as an adder, a worker or a cleaner. Arguments and output are the same
// as for the peers in other languages:
//
//	PORT PREFIX add NAME COUNT
//	PORT PREFIX work SEED LEASE
//	PORT PREFIX clean
func ourPeer(args []string) error {
	db := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + args[0]})
	defer db.Close()
	var options []workqueue.Option
	if os.Getenv("WORKQUEUE_PEER") == "old leases" {
		options = append(options, workqueue.WithOldClients())
	}
	queue := workqueue.New(args[1], options...)
	switch args[2] {
	case "add":
		return ourAdder(db, queue, args[3], numberOf(args[4]))
	case "work":
		return ourWorker(db, queue, numberOf(args[3]), time.Duration(numberOf(args[4]))*time.Second)
	default:
		return workqueue.ServeCleaner(context.Background(), db, os.Stdin, os.Stdout)
	}
}

func numberOf(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		log.Fatal(err)
	}
	return n
}

func ourAdder(db *redis.Client, queue *workqueue.Queue, name string, count int) error {
	for i := range count {
		id := fmt.Sprintf("%s-%d", name, i)
		added, err := queue.AddItem(context.Background(), db, workqueue.Item{ID: id, Data: []byte("data of " + id)})
		if err != nil || !added {
			return fmt.Errorf("%s: %v, %w", id, added, err)
		}
		fmt.Println("added", id)
	}
	return nil
}

func ourWorker(db *redis.Client, queue *workqueue.Queue, seed int, lease time.Duration) error {
	ctx := context.Background()
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	for {
		timeout := time.Duration(random.IntN(2)) * time.Second
		item, err := queue.Lease(ctx, db, true, timeout, lease)
		if err != nil {
			return err
		}
		if item == nil {
			continue
		}
		fmt.Println("leased", item.ID, strings.ReplaceAll(string(item.Data), " ", "_"))
		time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond) // the work
		switch random.IntN(20) {
		case 0:
			continue // give up
		case 1:
			if _, err := queue.Release(ctx, db, item); err != nil {
				return err
			}
			continue
		case 2:
			if _, err := queue.Renew(ctx, db, item, lease); err != nil {
				return err
			}
		}
		fmt.Println("completing", item.ID)
		first, err := queue.Complete(ctx, db, item)
		if err != nil {
			return err
		}
		fmt.Println("completed", item.ID, first)
	}
}
