// A client of duramen.v1.KV with TLS and a token: grpc ADDRESS TABLE, with certs/ca.crt in the current folder and the
// token in TOKEN, or none. It prints what each call answers: a value, or the code with the reasons of the refusal.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	pb "example.com/cities/duramen/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

type bearer struct{ token string }

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + b.token}, nil
}
func (b bearer) RequireTransportSecurity() bool { return true }

func say(call, answer string, err error) {
	if err != nil {
		refused := status.Convert(err)
		answer = refused.Code().String()
		for _, detail := range refused.Details() {
			if info, ok := detail.(*errdetails.ErrorInfo); ok {
				answer += " " + info.Domain + " " + info.Reason
			}
		}
		fmt.Fprintln(os.Stderr, call, refused.Message())
	}
	fmt.Println(call, answer)
}

func main() {
	address, table, token := os.Args[1], os.Args[2], os.Getenv("TOKEN")
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	tls, err := credentials.NewClientTLSFromFile("certs/ca.crt", "")
	if err != nil {
		log.Fatal(err)
	}
	connection, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(tls), grpc.WithPerRPCCredentials(bearer{token}))
	if token == "" {
		connection, err = grpc.NewClient(address, grpc.WithTransportCredentials(tls))
	}
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	kv := pb.NewKVClient(connection)
	put, err := kv.Put(ctx, &pb.KVPutRequest{Table: table, Key: []byte("grpc"), Value: []byte("by Go")})
	say("put", "done", err)
	got, err := kv.Get(ctx, &pb.KVGetRequest{Table: table, Key: []byte("grpc"), After: put.GetToken()})
	say("get", string(got.GetValue()), err)
	page := new(pb.KVScanResponse)
	scan, err := kv.Scan(ctx, &pb.KVScanRequest{Table: table, Prefix: []byte("grpc"), After: put.GetToken()})
	if err == nil {
		page, err = scan.Recv()
	}
	say("scan", fmt.Sprint(len(page.GetEntries())), err)
}
