import io.lettuce.core.TransactionResult;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.SlotHash;
import io.lettuce.core.cluster.api.StatefulRedisClusterConnection;
import java.io.BufferedReader;
import java.io.InputStreamReader;

/**
 * Writes to keys that another client writes meanwhile. It is given the port of one node and a number of rounds, says
 * "ready", begins with the next line of its input, and prints what it won: one line for each kind.
 */
public final class Contended {
    public static void main(String[] arguments) throws Exception {
        int rounds = Integer.parseInt(arguments[1]);
        RedisClusterClient client = RedisClusterClient.create("redis://127.0.0.1:" + arguments[0]);
        try (var connection = client.connect()) {
            connection.sync().ping();
            System.out.println("ready");
            new BufferedReader(new InputStreamReader(System.in)).readLine();
            int locks = 0;
            int optimistic = 0;
            for (int round = 0; round < rounds; round++) {
                var redis = connection.sync();
                redis.incr("count");
                redis.append("log", "j");
                locks += redis.setnx("lock:" + round, "java") ? 1 : 0;
                optimistic += plusOne(connection, "optimistic") ? 1 : 0;
            }
            System.out.println("locks: " + locks);
            System.out.println("optimistic: " + optimistic);
        } finally {
            client.shutdown();
        }
    }

    /** One try to add one to what was read. A transaction belongs to a connection, so to the node that serves the key. */
    private static boolean plusOne(StatefulRedisClusterConnection<String, String> connection, String key) {
        String node = connection.getPartitions().getPartitionBySlot(SlotHash.getSlot(key)).getNodeId();
        RedisCommands<String, String> redis = connection.getConnection(node).sync();
        redis.watch(key);
        String found = redis.get(key);
        redis.multi();
        redis.set(key, String.valueOf(found == null ? 1 : Long.parseLong(found) + 1));
        TransactionResult result = redis.exec();
        return !result.wasDiscarded();
    }
}
