//! Receives datagrams and does nothing with them: the floor under every DogStatsD server's cost,
//! since no server can be cheaper than the kernel's part of the work. Prints its port and runs
//! until it is ended.
//!
//! `cargo bench -p plimsoll-node --bench receive_only -- --batch 64`

use std::hint::black_box;
use std::io::{IoSliceMut, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use clap::Parser;
use nix::sys::socket::{MsgFlags, MultiHeaders, recvmmsg, setsockopt, sockopt};
use plimsoll_clock::Deadline;

/// The receive buffer that a node requests.
const RECEIVE_BYTES: usize = 4 * 1024 * 1024;
const DATAGRAM_BYTES: usize = 8_192;

/// Receives UDP datagrams on 127.0.0.1 and drops them
#[derive(Debug, Parser)]
#[command(name = "receive_only")]
struct Args {
    /// Datagrams to take with one call; 1 is `recv`, more is `recvmmsg`
    #[arg(long, default_value_t = 1)]
    batch: usize,
    /// Milliseconds to rest after a call that left nothing, so that one wake finds several
    #[arg(long, default_value_t = 0)]
    rest_ms: u64,
    /// Passed by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    setsockopt(&socket, sockopt::RcvBuf, &RECEIVE_BYTES)?;
    println!("{}", socket.local_addr()?.port());
    std::io::stdout().flush()?;
    if args.batch > 1 { several(&socket, &args) } else { single(&socket) }
}

fn single(socket: &UdpSocket) -> anyhow::Result<()> {
    let mut buffer = vec![0; DATAGRAM_BYTES];
    loop {
        black_box(socket.recv(&mut buffer)?);
    }
}

/// Waits for the first datagram and takes what else is there.
fn several(socket: &UdpSocket, args: &Args) -> anyhow::Result<()> {
    let rest = Duration::from_millis(args.rest_ms);
    let mut buffers = vec![vec![0; DATAGRAM_BYTES]; args.batch];
    loop {
        let mut slices: Vec<_> = buffers.iter_mut().map(|b| [IoSliceMut::new(b)]).collect();
        let mut headers = MultiHeaders::<()>::preallocate(args.batch, None);
        let flags = MsgFlags::MSG_WAITFORONE;
        let taken = recvmmsg(socket.as_raw_fd(), &mut headers, &mut slices, flags, None)?.count();
        if taken < args.batch && !rest.is_zero() {
            let _passed = Deadline::within(rest).pause(rest);
        }
    }
}
