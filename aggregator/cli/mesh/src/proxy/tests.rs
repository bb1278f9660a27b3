//! The link's rate, delay, stalls and breaks, before a server that sends back what it receives.

use tokio::time::timeout;

use super::*;

const WAIT: Duration = Duration::from_secs(20);
/// Long enough for bytes on loopback that nothing holds back.
const SHORT: Duration = Duration::from_millis(150);

/// Sends back all that it reads, and publishes how much that was.
async fn echo() -> (String, watch::Receiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (total, read) = watch::channel(0);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let total = total.clone();
            tokio::spawn(async move {
                let mut buffer = vec![0; 4096];
                while let Ok(read @ 1..) = client.read(&mut buffer).await {
                    total.send_modify(|total| *total += read);
                    if client.write_all(&buffer[..read]).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, read)
}

async fn proxied() -> (Proxy, TcpStream, watch::Receiver<usize>) {
    let (address, read) = echo().await;
    let proxy = Proxy::start(&address).await.unwrap();
    let client = TcpStream::connect(proxy.address()).await.unwrap();
    (proxy, client, read)
}

fn numbered(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| u8::try_from(n % 251).unwrap()).collect()
}

/// Sends bytes and reads as many back; returns how long that took.
async fn exchange(client: &mut TcpStream, bytes: usize) -> Duration {
    let (sent, since) = (numbered(bytes), Stopwatch::start());
    let mut back = vec![0; bytes];
    let (mut from, mut to) = client.split();
    let both = async { tokio::try_join!(to.write_all(&sent), from.read_exact(&mut back)) };
    timeout(WAIT, both).await.unwrap().unwrap();
    assert!(back == sent, "{bytes} bytes came back altered");
    since.elapsed()
}

fn slow(bytes_per_second: u64) -> Direction {
    Direction { bytes_per_second: Some(bytes_per_second), ..Direction::default() }
}

#[tokio::test]
async fn bytes_pass_unchanged_whatever_their_number() {
    let (_proxy, mut client, read) = proxied().await;
    let sizes = [1, 7, 16_384, 100_000, 3_000_000];
    for bytes in sizes {
        exchange(&mut client, bytes).await;
    }
    assert_eq!(*read.borrow(), sizes.iter().sum::<usize>());
}

#[tokio::test]
async fn a_slow_direction_takes_as_long_as_its_rate_says() {
    for is_up in [true, false] {
        let (proxy, mut client, _) = proxied().await;
        let direction = slow(20_000);
        proxy.set(match is_up {
            true => NetworkConditions { up: direction, ..NetworkConditions::default() },
            false => NetworkConditions { down: direction, ..NetworkConditions::default() },
        });
        let took = exchange(&mut client, 10_000).await;
        assert!(took >= Duration::from_millis(490), "{took:?}");
        proxy.set(NetworkConditions::default());
        exchange(&mut client, 3_000_000).await;
    }
}

#[tokio::test]
async fn a_delay_holds_for_each_byte_and_not_for_their_number() {
    let (proxy, mut client, _) = proxied().await;
    let delay = Duration::from_millis(100);
    let one_way = Direction { delay, ..Direction::default() };
    proxy.set(NetworkConditions { up: one_way, down: one_way, ..NetworkConditions::default() });
    let took = exchange(&mut client, 10).await;
    assert!(took >= 2 * delay, "{took:?}");
    // Forty chunks one after the other would take eight seconds.
    let took = exchange(&mut client, 40 * CHUNK_BYTES_MAX).await;
    assert!(took >= 2 * delay && took < 40 * delay, "{took:?}");
}

#[tokio::test]
async fn a_stalled_link_passes_nothing_and_loses_nothing() {
    let (proxy, mut client, read) = proxied().await;
    proxy.set(NetworkConditions { stalled: true, ..NetworkConditions::default() });
    client.write_all(b"held").await.unwrap();
    let mut back = [0; 4];
    let early = timeout(SHORT, client.read_exact(&mut back)).await;
    assert!(early.is_err() && *read.borrow() == 0, "a stalled link passed {back:?}");
    proxy.set(NetworkConditions::default());
    timeout(WAIT, client.read_exact(&mut back)).await.unwrap().unwrap();
    assert_eq!(&back, b"held");
}

#[tokio::test]
async fn a_cut_ends_every_connection_and_refuses_none_after_it() {
    let (proxy, mut client, _) = proxied().await;
    exchange(&mut client, 10).await;
    proxy.cut();
    let mut buffer = [0; 1];
    let ended = timeout(WAIT, client.read(&mut buffer)).await.unwrap();
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    let mut again = TcpStream::connect(proxy.address()).await.unwrap();
    exchange(&mut again, 10).await;
}

#[test]
fn a_slow_link_has_small_chunks_and_none_is_empty() {
    for (rate, bytes) in [(0, 1), (19, 1), (2_000, 100), (u64::MAX, CHUNK_BYTES_MAX)] {
        assert_eq!(chunk_bytes(rate), bytes, "{rate}");
    }
}
