//! Sends DogStatsD timers at a rate that does not depend on the receiver, and prints one line of
//! JSON with the samples attempted and sent. It reads no answer: the receiver and the kernel report
//! what arrived.
//!
//! `cargo bench -p plimsoll-node --bench dogstatsd_load -- --to 127.0.0.1:8125`

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use clap::Parser;
use plimsoll_clock::{Deadline, Stopwatch};

/// Different datagrams that are made beforehand and sent in turn: enough that no receiver can
/// profit from seeing the same text again, few enough to stay in the cache.
const DATAGRAMS: usize = 1_024;
/// What is due is sent at least this often, so that no burst is longer.
const TURN: Duration = Duration::from_millis(1);
/// Datagrams sent before it reads the clock again.
const LOOK_AFTER: usize = 64;
/// What is behind when the time is over may still go, for this much of the time. A rate that
/// is out of reach shows as fewer sent than attempted.
const OVERTIME: f64 = 1.05;

/// Sends timers such as `bench.op7:12.345|ms`
#[derive(Debug, Parser)]
#[command(name = "dogstatsd_load")]
struct Args {
    /// Receiver: an address for UDP, or the path of a Unix datagram socket
    #[arg(long)]
    to: String,
    /// Samples a second, of all threads together
    #[arg(long, default_value_t = 100_000)]
    rate: u64,
    /// Samples in one datagram
    #[arg(long, default_value_t = 1)]
    packed: u64,
    /// Different names
    #[arg(long, default_value_t = 10)]
    series: u64,
    /// How long to send
    #[arg(long, default_value_t = 8.0)]
    seconds: f64,
    /// Threads that send, each from a socket of its own
    #[arg(long, default_value_t = 1)]
    threads: u64,
    /// Where the random values begin
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Passed by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

enum Socket {
    Udp(UdpSocket),
    Unix(UnixDatagram),
}

impl Socket {
    fn towards(to: &str) -> io::Result<Self> {
        if let Ok(address) = to.parse::<SocketAddr>() {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            socket.connect(address)?;
            return Ok(Self::Udp(socket));
        }
        let socket = UnixDatagram::unbound()?;
        socket.connect(to)?;
        Ok(Self::Unix(socket))
    }

    fn send(&self, datagram: &[u8]) -> io::Result<usize> {
        match self {
            Self::Udp(socket) => socket.send(datagram),
            Self::Unix(socket) => socket.send(datagram),
        }
    }
}

/// Marsaglia's xorshift: the values need to differ, no more.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn share(&mut self) -> f64 {
        f64::from(u32::try_from(self.below(1 << 32)).unwrap_or(u32::MAX)) / 4_294_967_296.0
    }

    /// 98 in 100 lognormal about a median of 8 ms, the rest 60 to 400 ms: mostly alike, with a
    /// tail. Twelve uniform numbers add up to a normal one, nearly.
    fn latency_ms(&mut self) -> f64 {
        if self.below(100) >= 98 {
            return 60.0 + 340.0 * self.share();
        }
        let normal = (0..12).map(|_| self.share()).sum::<f64>() - 6.0;
        8.0 * (0.35 * normal).exp()
    }
}

/// Latencies with three decimals, as a job would write them.
fn datagrams(args: &Args, thread: u64) -> Vec<Vec<u8>> {
    let mut random = Random((args.seed + thread).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut line =
        |_| format!("bench.op{}:{:.3}|ms", random.below(args.series.max(1)), random.latency_ms());
    let datagram = |_| (0..args.packed).map(&mut line).collect::<Vec<_>>().join("\n").into_bytes();
    (0..DATAGRAMS).map(datagram).collect()
}

#[derive(Clone, Copy, Default)]
struct Count {
    attempted: u64,
    sent: u64,
}

impl Count {
    fn plus(self, other: Self) -> Self {
        Self { attempted: self.attempted + other.attempted, sent: self.sent + other.sent }
    }
}

/// Sends whatever is due, rests until the next turn, and does so until the time is over. Late,
/// it sends what it missed in one go: the rate is a promise, not a ceiling.
fn send_paced(args: &Args, thread: u64) -> io::Result<Count> {
    let socket = Socket::towards(&args.to)?;
    let datagrams = datagrams(args, thread);
    let mut turn = datagrams.iter().cycle();
    #[expect(clippy::cast_precision_loss, reason = "rates are far below 2^53")]
    let per_second = args.rate as f64 / (args.packed * args.threads) as f64;
    let (mut count, mut tried) = (Count::default(), 0);
    let watch = Stopwatch::start();
    loop {
        let elapsed = watch.elapsed().as_secs_f64();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a product of two positive numbers, far below 2^53"
        )]
        let due = (elapsed.min(args.seconds) * per_second) as usize;
        let behind = due - tried;
        count.attempted = due as u64;
        if elapsed >= args.seconds && (behind == 0 || elapsed >= args.seconds * OVERTIME) {
            return Ok(count);
        }
        if behind == 0 {
            let _more = Deadline::within(TURN).pause(TURN);
        }
        let now = behind.min(LOOK_AFTER);
        tried += now;
        for datagram in turn.by_ref().take(now) {
            count.sent += u64::from(socket.send(datagram).is_ok());
        }
    }
}

fn main() -> anyhow::Result<()> {
    let args = &Args::parse();
    let watch = Stopwatch::start();
    let count = std::thread::scope(|scope| {
        let spawn = |thread| scope.spawn(move || send_paced(args, thread));
        let threads: Vec<_> = (0..args.threads).map(spawn).collect();
        threads.into_iter().try_fold(Count::default(), |sum, thread| {
            let count = thread.join().expect("the loop does not panic")?;
            io::Result::Ok(sum.plus(count))
        })
    })?;
    let figures = serde_json::json!({
        "attempted": count.attempted * args.packed,
        "sent": count.sent * args.packed,
        "datagrams": count.sent,
        "seconds": watch.elapsed().as_secs_f64(),
    });
    println!("{figures}");
    Ok(())
}
