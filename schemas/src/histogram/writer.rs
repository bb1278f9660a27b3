//! Writes a V2 payload bucket by bucket, in the one form that every HdrHistogram library writes.

/// Most samples of one stored histogram. More can only be forged.
pub const STORED_MAX: u64 = 1 << 62;

/// Writes buckets in ascending order, canonically.
#[derive(Default)]
pub(super) struct Writer {
    /// What is written, and room behind it.
    bytes: Vec<u8>,
    len: usize,
    pub(super) next: usize,
}

/// A run of at most this many empty buckets takes one byte, and a count below it.
const SHORT: usize = 64;
/// Room for two numbers of the longest form.
const ROOM: usize = 18;

impl Writer {
    /// Writes behind a head of `len` zeros.
    pub(super) fn after(len: usize) -> Self {
        Self { bytes: vec![0; len], len, next: 0 }
    }

    /// Has room for this many bytes.
    pub(super) fn with_room(len: usize) -> Self {
        Self { bytes: vec![0; len + ROOM], len: 0, next: 0 }
    }

    /// Adds a bucket behind all others; of its samples only [`STORED_MAX`] can be written.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "both are below 128, as checked")]
    pub(super) fn push(&mut self, index: usize, n: u64) {
        let run = index - self.next;
        self.next = index + 1;
        if self.bytes.len() < self.len + ROOM {
            self.grow();
        }
        // In ZigZag -run is 2 * run - 1, and n is 2 * n. One empty bucket is 0, as in the reference
        // library.
        if run <= SHORT && n < SHORT as u64 {
            self.bytes[self.len] = if run > 1 { 2 * run as u8 - 1 } else { 0 };
            self.len += usize::from(run > 0);
            self.bytes[self.len] = 2 * n as u8;
            self.len += 1;
        } else {
            self.push_long(run, n.min(STORED_MAX));
        }
    }

    #[cold]
    fn grow(&mut self) {
        self.bytes.resize(2 * self.bytes.len() + 2 * ROOM, 0);
    }

    #[inline(never)]
    fn push_long(&mut self, run: usize, n: u64) {
        self.run(run);
        self.number(2 * n);
    }

    fn run(&mut self, run: usize) {
        match run {
            0 => {}
            1 => self.number(0),
            _ => self.number(2 * run as u64 - 1),
        }
    }

    /// Writes a ZigZag number as [`read_number`](super::numbers::read_number) reads it.
    #[expect(clippy::cast_possible_truncation, reason = "taking seven bits at a time is the point")]
    fn number(&mut self, mut value: u64) {
        for _ in 0..8 {
            if value < 0x80 {
                break;
            }
            self.bytes[self.len] = (value as u8) | 0x80;
            self.len += 1;
            value >>= 7;
        }
        self.bytes[self.len] = value as u8;
        self.len += 1;
    }

    /// What was written.
    pub(super) fn written(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// What was written.
    pub(super) fn into_bytes(mut self) -> Vec<u8> {
        self.bytes.truncate(self.len);
        self.bytes
    }
}
