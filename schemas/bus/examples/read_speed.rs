//! What the bus and the broker spend on a message: processor time to publish one with its
//! acknowledgement, to read one of a backlog, and to do both at a steady pace.
//!
//! `cargo run --release -p plimsoll-bus --example read_speed -- [messages] [bytes] [a second] [s]`
//! starts a `nats-server` of its own on a random port, with its store in a new directory.
//! It judges nothing; the figures mean something only beside others of the same machine.

use std::error::Error;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use plimsoll_bus::{Bus, BusConfig, BusEvent, BusEvents, Cursor, CursorEvent, Publish, Ticket};
use plimsoll_clock::{Clock, Deadline, Stopwatch};
use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::subject::Lane;
use tempfile::TempDir;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const START_WAIT: Duration = Duration::from_secs(10);
const LANE: Lane = Lane::Normal;

fn main() -> Outcome<()> {
    let arguments: Vec<u64> =
        std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let argument = |index: usize, default| arguments.get(index).copied().unwrap_or(default);
    let (count, bytes) = (argument(0, 200_000), argument(1, 1_500));
    let (rate, seconds) = (argument(2, 10_000), argument(3, 5));
    let broker = Broker::start()?;
    println!("{count} messages of {bytes} B, then {rate} a second for {seconds} s");
    println!("               messages/s   us here   us broker");
    let payload = vec![7; usize::try_from(bytes)?];
    report("publish", &broker, count, || block_on(publish(broker.url(), 1, count, &payload)))?;
    for _ in 0..3 {
        report("read", &broker, count, || block_on(read(broker.url(), 1, count)))?;
    }
    let steady = rate * seconds;
    let pace = |first| block_on(pace(broker.url(), first, steady, rate, &payload));
    report("publish, paced", &broker, steady, || pace(count + 1))?;
    let first = count + steady + 1;
    std::thread::scope(|scope| {
        let publisher = scope.spawn(|| pace(first));
        report("and read too", &broker, steady, || block_on(read(broker.url(), first, steady)))?;
        publisher.join().map_err(|_| "the publisher panicked")?
    })
}

/// Runs `work` over `count` messages. Prints messages per second, and the processor time per
/// message of this thread and of the broker, in microseconds.
fn report(
    what: &str,
    broker: &Broker,
    count: u64,
    work: impl FnOnce() -> Outcome<()>,
) -> Outcome<()> {
    let cpu = || Outcome::Ok((cpu("/proc/thread-self/stat")?, broker.cpu()?));
    let (before, watch) = (cpu()?, Stopwatch::start());
    work()?;
    let (took, after) = (watch.elapsed(), cpu()?);
    let each = |span: Duration| span.as_secs_f64() * 1e6 / count as f64;
    let (here, there) = (each(after.0 - before.0), each(after.1 - before.1));
    let a_second = count as f64 / took.as_secs_f64();
    println!("{what:14} {a_second:10.0} {here:9.2} {there:11.2}");
    Ok(())
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime without threads needs nothing").block_on(future)
}

fn connect(url: String) -> Outcome<(Bus, BusEvents)> {
    let mesh = MeshName::new("m")?;
    let connection_name = "read-speed".to_owned();
    Ok(Bus::connect(BusConfig::new(url, connection_name, mesh))?)
}

fn message(token: u64, payload: &[u8]) -> Publish {
    Publish {
        headers: Vec::new(),
        ticket: Ticket(token),
        subject: format!("plimsoll.v1.m.{}.n{}.latency", LANE.as_str(), token % 10_000),
        message_id: format!("n{}-{token}", token % 10_000),
        payload: payload.to_vec().into(),
    }
}

/// As fast as the bus takes them; returns once the broker has all.
async fn publish(url: String, first: u64, count: u64, payload: &[u8]) -> Outcome<()> {
    let (bus, mut events) = connect(url)?;
    let (mut next, mut answered) = (first, 0);
    while answered < count {
        while next < first + count && bus.try_publish(message(next, payload)).is_ok() {
            next += 1;
        }
        answered += u64::from(is_acknowledged(events.next().await)?);
    }
    bus.close().await;
    Ok(())
}

/// At `rate` a second by the clock, however long each takes.
async fn pace(url: String, first: u64, count: u64, rate: u64, payload: &[u8]) -> Outcome<()> {
    let (bus, mut events) = connect(url)?;
    let (clock, mut next, mut answered) = (Clock::start(), first, 0);
    let mut ticks = tokio::time::interval(Duration::from_millis(2));
    while answered < count {
        tokio::select! {
            event = events.next() => answered += u64::from(is_acknowledged(event)?),
            _ = ticks.tick() => {}
        }
        let due = clock.now().mono.0 / 1_000 * rate / 1_000_000;
        while next < first + count.min(due) && bus.try_publish(message(next, payload)).is_ok() {
            next += 1;
        }
    }
    bus.close().await;
    Ok(())
}

fn is_acknowledged(event: Option<BusEvent>) -> Outcome<bool> {
    match event {
        Some(BusEvent::Acknowledged { .. }) => Ok(true),
        Some(BusEvent::Refused { reason, .. }) => Err(reason.to_string().into()),
        Some(_) => Ok(false),
        None => Err("the connection ended".into()),
    }
}

async fn read(url: String, first: u64, count: u64) -> Outcome<()> {
    let (bus, _events) = connect(url)?;
    let mut cursor = bus.cursor(LANE, first, None);
    let (mut taken, mut behind) = (0, 0);
    while taken < count {
        let message = next_message(&mut cursor).await?;
        if message.stream_seq != first + taken {
            return Err(format!("{} in place of {}", message.stream_seq, first + taken).into());
        }
        behind = behind.max(message.pending);
        taken += 1;
    }
    println!("               at most {behind} behind");
    Ok(())
}

async fn next_message(cursor: &mut Cursor) -> Outcome<plimsoll_bus::Delivered> {
    loop {
        match cursor.next().await.ok_or("the cursor ended")? {
            CursorEvent::Message(message) => return Ok(message),
            CursorEvent::Positioned { .. } | CursorEvent::Used { .. } => {}
            CursorEvent::Reset { .. } => return Err("another stream".into()),
        }
    }
}

/// A `nats-server` process that ends with its owner.
struct Broker {
    dir: TempDir,
    child: Child,
    url: String,
}

impl Broker {
    fn start() -> Outcome<Self> {
        let dir = tempfile::tempdir()?;
        let binary = std::env::var("PLIMSOLL_NATS_SERVER").unwrap_or("nats-server".to_owned());
        let mut command = Command::new(binary);
        command.args(["-js", "-a", "127.0.0.1", "-p", "-1", "-sd"]).arg(dir.path().join("store"));
        command.arg("--ports_file_dir").arg(dir.path());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let mut broker = Self { dir, child, url: String::new() };
        broker.url = broker.poll_url()?;
        Ok(broker)
    }

    fn url(&self) -> String {
        self.url.clone()
    }

    /// The server writes its address into a file named after its process.
    fn poll_url(&self) -> Outcome<String> {
        let path = self.dir.path().join(format!("nats-server_{}.ports", self.child.id()));
        let deadline = Deadline::within(START_WAIT);
        while deadline.pause(Duration::from_millis(5)) {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let ports: Option<serde_json::Value> = serde_json::from_str(&text).ok();
            if let Some(url) = ports.as_ref().and_then(|ports| ports["nats"][0].as_str()) {
                return Ok(url.to_owned());
            }
        }
        Err("nats-server did not start".into())
    }

    fn cpu(&self) -> Outcome<Duration> {
        cpu(&format!("/proc/{}/stat", self.child.id()))
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processor time that a process or thread has had, in user and in kernel mode, to a hundredth
/// of a second.
fn cpu(path: &str) -> Outcome<Duration> {
    let stat = fs::read_to_string(path)?;
    // The name is in brackets and may hold any text. User and kernel time are the 12th and 13th
    // field after it, in units of a hundredth of a second whatever the kernel counts in.
    let (_, fields) = stat.rsplit_once(") ").ok_or("no process name")?;
    let mut ticks = fields.split(' ').skip(11).take(2).map(str::parse::<u64>);
    let mut next = || ticks.next().ok_or("too few fields")?.map_err(|_| "no number");
    Ok(Duration::from_millis((next()? + next()?) * 10))
}
