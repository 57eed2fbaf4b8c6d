//go:build interop

package workqueue_test

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/compat/workqueue"
)

func init() {
	actAsPeer = func() {
		if err := ourPeer(os.Args[1:]); err != nil {
			log.Fatal(err)
		}
	}
}

// ourPeer runs this package as an adder, a worker or a cleaner. Its arguments and output are those
// of the peers in other languages:
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
