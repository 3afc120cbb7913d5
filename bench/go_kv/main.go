// gokv drives duramen.v1.KV, or etcd by its own client, with many callers on one connection.
//
//	gokv -server duramen|etcd -at HOST:PORT -call put|get -callers 64 -seconds 5
//
// It prints one JSON object: calls per second and latencies in the timed region, which a second of warm-up precedes.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math/rand"
	"os"
	"sort"
	"sync"
	"time"

	pb "example.com/gokv/duramen/v1"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	keys       = 10_000
	valueBytes = 100
	warmUp     = time.Second
	table      = "bench"
	// Of the table: what the other workloads take.
	partitions = 4
)

// store is what is measured: one durable put, or one get from the server's own state.
type store struct {
	put func(ctx context.Context, key string, value []byte) error
	get func(ctx context.Context, key string) (int, error) // the value's length
}

func must[T any](found T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return found
}

func duramen(ctx context.Context, at string) store {
	channel := must(grpc.Dial(at, grpc.WithTransportCredentials(insecure.NewCredentials())))
	create := &pb.CreateTableRequest{Name: table, Partitions: partitions}
	must(pb.NewTablesClient(channel).Create(ctx, create))
	kv := pb.NewKVClient(channel)
	return store{
		put: func(ctx context.Context, key string, value []byte) error {
			_, err := kv.Put(ctx, &pb.KVPutRequest{Table: table, Key: []byte(key), Value: value})
			return err
		},
		get: func(ctx context.Context, key string) (int, error) {
			found, err := kv.Get(ctx, &pb.KVGetRequest{Table: table, Key: []byte(key)})
			return len(found.GetValue()), err
		},
	}
}

func etcd(at string) store {
	client := must(clientv3.New(clientv3.Config{Endpoints: []string{"http://" + at}, DialTimeout: 10 * time.Second}))
	return store{
		put: func(ctx context.Context, key string, value []byte) error {
			_, err := client.Put(ctx, key, string(value))
			return err
		},
		get: func(ctx context.Context, key string) (int, error) {
			found, err := client.Get(ctx, key, clientv3.WithSerializable())
			if err != nil || len(found.Kvs) == 0 {
				return 0, err
			}
			return len(found.Kvs[0].Value), nil
		},
	}
}

// together runs work in so many goroutines and waits for all.
func together(callers int, work func(caller int)) {
	var group sync.WaitGroup
	for caller := 0; caller < callers; caller++ {
		group.Add(1)
		go func(caller int) { defer group.Done(); work(caller) }(caller)
	}
	group.Wait()
}

func main() {
	server := flag.String("server", "duramen", "duramen or etcd")
	at := flag.String("at", "localhost:7070", "host:port")
	call := flag.String("call", "put", "put or get")
	callers := flag.Int("callers", 64, "goroutines")
	seconds := flag.Float64("seconds", 5, "of the timed region")
	flag.Parse()
	ctx := context.Background()
	var kv store
	if *server == "etcd" {
		kv = etcd(*at)
	} else {
		kv = duramen(ctx, *at)
	}
	name := func(n int) string { return fmt.Sprintf("key%08d", n) }
	value := make([]byte, valueBytes)
	rand.Read(value)
	if *call == "get" {
		together(*callers, func(caller int) {
			for n := caller; n < keys; n += *callers {
				if err := kv.put(ctx, name(n), value); err != nil {
					log.Fatal(err)
				}
			}
		})
	}
	opened := time.Now().Add(warmUp)
	closed := opened.Add(time.Duration(*seconds * float64(time.Second)))
	durations := make([][]time.Duration, *callers)
	together(*callers, func(caller int) {
		random := rand.New(rand.NewSource(int64(caller)))
		for started := time.Now(); started.Before(closed); {
			key := name(random.Intn(keys))
			if *call == "put" {
				if err := kv.put(ctx, key, value); err != nil {
					log.Fatal(err)
				}
			} else if size, err := kv.get(ctx, key); err != nil || size != valueBytes {
				log.Fatalf("get %s: %d bytes, %v", key, size, err)
			}
			ended := time.Now()
			if started.After(opened) {
				durations[caller] = append(durations[caller], ended.Sub(started))
			}
			started = ended
		}
	})
	var all []time.Duration
	for _, mine := range durations {
		all = append(all, mine...)
	}
	sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
	quantile := func(q float64) float64 { return float64(all[int(q*float64(len(all)-1))]) / 1e3 }
	must(0, json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"per_second": float64(len(all)) / *seconds, "p50_us": quantile(0.5), "p99_us": quantile(0.99),
	}))
}
