// A program of somebody who uses Redis from Go: it runs against the port in its first argument, and says what differs
// from what it expects.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

func expect(what string, ok bool) {
	if !ok {
		fmt.Println("FAILED:", what)
		os.Exit(1)
	}
}

// What a client of a cluster does that is given the address of one node.
func onCluster(ctx context.Context, address string, prefix string) {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{address}})
	const count = 100
	before, err := client.DBSize(ctx).Result()
	expect("DBSIZE of the cluster", err == nil)
	for number := 0; number < count; number++ {
		expect("SET", client.Set(ctx, fmt.Sprintf("%s:%d", prefix, number), number, 0).Err() == nil)
	}
	expect("DBSIZE adds what the masters have", client.DBSize(ctx).Val() == before+count)
	var mutex sync.Mutex
	found := map[string]int{}
	err = client.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		keys, err := master.Keys(ctx, prefix+":*").Result()
		mutex.Lock()
		defer mutex.Unlock()
		for _, key := range keys {
			found[key]++
		}
		return err
	})
	expect("KEYS of every master", err == nil && len(found) == count)
	for key, times := range found {
		expect(key+" once", times == 1)
	}
	commands, err := client.Command(ctx).Result()
	expect("COMMAND", err == nil && commands["mset"].StepCount == 2 && commands["dbsize"].ReadOnly)
	expect("PING of every shard", client.ForEachShard(ctx, func(ctx context.Context, shard *redis.Client) error {
		return shard.Ping(ctx).Err()
	}) == nil)
	client.Close()
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	if os.Args[1] == "cluster" {
		onCluster(ctx, "127.0.0.1:"+os.Args[2], os.Args[3])
		fmt.Println("all as expected")
		return
	}
	address := "127.0.0.1:" + os.Args[1]
	prefix := os.Args[2]
	for _, protocol := range []int{2, 3} {
		client := redis.NewClient(&redis.Options{Addr: address, Protocol: protocol})
		key := fmt.Sprintf("%s-%d", prefix, protocol)
		expect("SET", client.Set(ctx, key, "value", 100*time.Second).Err() == nil)
		expect("GET", client.Get(ctx, key).Val() == "value")
		expect("TTL", client.TTL(ctx, key).Val() == 100*time.Second)
		expect("SETNX", !client.SetNX(ctx, key, "other", 0).Val())
		_, err := client.Get(ctx, key+"-absent").Result()
		expect("nil", err == redis.Nil)
		expect("INCR of a word", client.Incr(ctx, key).Err().Error() == "ERR value is not an integer or out of range")
		expect("MSET", client.MSet(ctx, key+"1", 1, key+"2", 2).Err() == nil)
		expect("MGET", fmt.Sprint(client.MGet(ctx, key+"1", key+"2", key+"3").Val()) == "[1 2 <nil>]")

		var group sync.WaitGroup
		for worker := 0; worker < 16; worker++ {
			group.Add(1)
			go func() {
				defer group.Done()
				for step := 0; step < 20; step++ {
					client.Incr(ctx, key+"-counter")
				}
			}()
		}
		group.Wait()
		count, _ := client.Get(ctx, key+"-counter").Int()
		expect("counter", count == 320)

		replies, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Set(ctx, key+"-tx", 1, 0)
			pipe.Incr(ctx, key+"-tx")
			return nil
		})
		expect("MULTI", err == nil && replies[1].(*redis.IntCmd).Val() == 2)

		err = client.Watch(ctx, func(tx *redis.Tx) error {
			client.Set(ctx, key, "meanwhile", 0)
			_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				return pipe.Set(ctx, key, "late", 0).Err()
			})
			return err
		}, key)
		expect("WATCH", err == redis.TxFailedErr)

		found := 0
		iterator := client.Scan(ctx, 0, key+"*", 10).Iterator()
		for iterator.Next(ctx) {
			found++
		}
		expect("SCAN", iterator.Err() == nil && found == 5)
		client.Close()
	}
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{address}})
	expect("cluster SET", cluster.Set(ctx, prefix+"-cluster", "v", 0).Err() == nil)
	expect("cluster GET", cluster.Get(ctx, prefix+"-cluster").Val() == "v")
	cluster.Close()
	fmt.Println("all as expected")
}
