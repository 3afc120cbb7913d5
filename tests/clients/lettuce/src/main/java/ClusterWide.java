import io.lettuce.core.KeyScanCursor;
import io.lettuce.core.KeyValue;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.api.sync.RedisAdvancedClusterCommands;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * What a Java program gets that uses Lettuce's cluster client and commands about the whole cluster. It is given the port
 * of one node and a prefix for its keys, and prints one line for each result.
 */
public final class ClusterWide {
    private static final int COUNT = 200;

    public static void main(String[] arguments) throws Exception {
        String prefix = arguments[1];
        RedisClusterClient client = RedisClusterClient.create("redis://127.0.0.1:" + arguments[0]);
        try (var connection = client.connect()) {
            walk(connection.sync(), prefix);
            manyKeys(connection.sync(), prefix);
            notifications(client, connection.sync(), prefix);
            clear(connection.sync(), prefix);
        } finally {
            client.shutdown();
        }
    }

    private static void say(String name, Object value) {
        System.out.println(name + ": " + value);
    }

    private static List<String> names(String prefix) {
        List<String> names = new ArrayList<>();
        for (int number = 0; number < COUNT; number++) {
            names.add(prefix + ":" + number);
        }
        return names;
    }

    private static void walk(RedisAdvancedClusterCommands<String, String> redis, String prefix) {
        List<String> names = names(prefix);
        names.forEach(name -> redis.set(name, name));
        say("primaries", redis.upstream().size());
        say("dbsize", redis.dbsize());
        say("keys", new TreeSet<>(redis.keys("*")));
        say("keys in all", redis.keys("*").size());
        say("keys of a pattern", new TreeSet<>(redis.keys(prefix + ":1*")));
        List<String> found = new ArrayList<>();
        ScanArgs pages = ScanArgs.Builder.limit(7).match(prefix + ":*");
        KeyScanCursor<String> cursor = redis.scan(pages);
        found.addAll(cursor.getKeys());
        while (!cursor.isFinished()) {
            cursor = redis.scan(cursor, pages);
            found.addAll(cursor.getKeys());
        }
        say("scan", new TreeSet<>(found));
        say("scan in all", found.size());
        Set<String> random = new HashSet<>();
        for (int number = 0; number < 20; number++) {
            random.add(redis.randomkey());
        }
        say("randomkey is one of them", names.containsAll(random));
        say("ping", redis.ping());
    }

    private static void manyKeys(RedisAdvancedClusterCommands<String, String> redis, String prefix) {
        List<String> names = names(prefix);
        Map<String, String> pairs = new LinkedHashMap<>();
        names.forEach(name -> pairs.put(name, "new " + name));
        say("mset", redis.mset(pairs));
        List<String> asked = new ArrayList<>(names.subList(0, 20));
        asked.add(10, prefix + ":absent");
        List<String> values = new ArrayList<>();
        for (KeyValue<String, String> each : redis.mget(asked.toArray(String[]::new))) {
            values.add(each.getValueOrElse("nothing"));
        }
        say("mget", values);
        String[] all = names.toArray(String[]::new);
        say("exists", redis.exists(all));
        say("touch", redis.touch(all));
        say("unlink", redis.unlink(names.subList(0, 50).toArray(String[]::new)));
        say("del", redis.del(all));
        say("exists afterwards", redis.exists(all));
        say("dbsize afterwards", redis.dbsize());
    }

    private static void notifications(
            RedisClusterClient client, RedisAdvancedClusterCommands<String, String> redis, String prefix)
            throws InterruptedException {
        CountDownLatch left = new CountDownLatch(COUNT);
        Set<String> heard = ConcurrentHashMap.newKeySet();
        try (var listener = client.connectPubSub()) {
            listener.addListener(new RedisPubSubAdapter<String, String>() {
                @Override
                public void message(String pattern, String channel, String event) {
                    if (heard.add(channel)) {
                        left.countDown();
                    }
                }
            });
            listener.sync().psubscribe("__keyspace@0__:" + prefix + ":*");
            names(prefix).forEach(name -> redis.set(name, name));
            say("all writes are heard", left.await(30, TimeUnit.SECONDS));
        }
    }

    private static void clear(RedisAdvancedClusterCommands<String, String> redis, String prefix) {
        say("flushdb", redis.flushdb());
        say("dbsize of nothing", redis.dbsize());
        say("keys of nothing", redis.keys("*"));
        say("randomkey of nothing", redis.randomkey());
        say("set", redis.set(prefix + ":again", "v"));
        say("get", redis.get(prefix + ":again"));
        say("dbsize of one", redis.dbsize());
    }
}
