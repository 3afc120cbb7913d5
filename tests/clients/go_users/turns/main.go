// One user floods the Redis protocol with go-redis while another one makes single calls, by go-redis and by gRPC:
// turns PROTOCOL RESP_ADDRESS GRPC_ADDRESS TABLE, with certs/ca.crt in the current folder, the token of the flood in
// FLOOD and the other one in TOKEN. For each kind of call it prints how many were answered as they should be, and the
// median of how many commands of the flood were answered meanwhile; then the errors of the flood.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"os"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	pb "example.com/cities/duramen/v1"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
)

const (
	connections = 64
	pipelined   = 256
	calls       = 20
)

var answered, failed atomic.Int64 // commands of the flood

func open(ctx context.Context, roots *x509.CertPool, token string) *redis.Conn {
	protocol, err := strconv.Atoi(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{
		Addr: os.Args[2], Protocol: protocol, Password: token, MaxRetries: -1,
		DialTimeout: time.Minute, ReadTimeout: time.Minute, WriteTimeout: time.Minute,
		TLSConfig: &tls.Config{RootCAs: roots, ServerName: "localhost"},
	})
	connection := client.Conn()
	if err := connection.Process(ctx, redis.NewStatusCmd(ctx, "select", os.Args[4])); err != nil {
		log.Fatal(err)
	}
	return connection
}

func flood(ctx context.Context, connection *redis.Conn, begun *sync.WaitGroup) {
	for first := true; ctx.Err() == nil; first = false {
		pipe := connection.Pipeline()
		for i := 0; i < pipelined; i++ {
			pipe.Get(ctx, "absent")
		}
		commands, _ := pipe.Exec(ctx)
		for _, command := range commands {
			if err := command.Err(); err == redis.Nil {
				answered.Add(1)
			} else if ctx.Err() == nil {
				failed.Add(1)
			}
		}
		if first {
			begun.Done()
		}
	}
}

func measure(kind string, call func(number int) bool) {
	right, meanwhile := 0, make([]int, calls)
	for number := range meanwhile {
		before := answered.Load()
		if call(number) {
			right++
		}
		meanwhile[number] = int(answered.Load() - before)
	}
	sort.Ints(meanwhile)
	fmt.Println(kind, right, meanwhile[calls/2])
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	authority, err := os.ReadFile("certs/ca.crt")
	if err != nil {
		log.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	quiet := open(ctx, roots, os.Getenv("TOKEN"))
	channel, err := grpc.NewClient(os.Args[3], grpc.WithTransportCredentials(credentials.NewClientTLSFromCert(roots, "")))
	if err != nil {
		log.Fatal(err)
	}
	kv := pb.NewKVClient(channel)

	flooding, end := context.WithCancel(ctx)
	var begun, ended sync.WaitGroup
	for i := 0; i < connections; i++ {
		connection := open(ctx, roots, os.Getenv("FLOOD"))
		begun.Add(1)
		ended.Add(1)
		go func() { defer ended.Done(); flood(flooding, connection, &begun) }()
	}
	begun.Wait()
	measure("ping", func(int) bool { return quiet.Ping(ctx).Val() == "PONG" })
	measure("get", func(int) bool { return quiet.Get(ctx, "missing").Err() == redis.Nil })
	measure("incr", func(number int) bool {
		value, err := quiet.Incr(ctx, "n:"+os.Args[1]).Result()
		return err == nil && value == int64(number+1)
	})
	for _, by := range []string{"TOKEN", "FLOOD"} {
		as := metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+os.Getenv(by))
		measure("grpc "+by, func(number int) bool {
			key := []byte(fmt.Sprint(by, number))
			put, err := kv.Put(as, &pb.KVPutRequest{Table: os.Args[4], Key: key, Value: key})
			if err != nil {
				return false
			}
			got, err := kv.Get(as, &pb.KVGetRequest{Table: os.Args[4], Key: key, After: put.GetToken()})
			return err == nil && string(got.GetValue()) == string(key)
		})
	}
	end()
	ended.Wait()
	fmt.Println("flood", failed.Load())
}
