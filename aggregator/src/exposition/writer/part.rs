//! Parts of a page: the families of some nodes, written apart from those of others and joined. In
//! a page each family stands once, with its head and then the series of every part.
//!
//! DESIGN A65.

use std::collections::BTreeMap;

use super::family::Format;
use super::protobuf::{push_varint, varint_len};

/// The families of some nodes in one format. A protobuf family has no length before it yet.
#[derive(Clone, Debug, Default)]
pub struct Part {
    pub(super) bytes: Vec<u8>,
    pub(super) families: Vec<PartFamily>,
}

impl Part {
    /// How many bytes it has.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }
}

/// Where a family lies in its part; it ends where the next one begins.
#[derive(Clone, Debug)]
pub(super) struct PartFamily {
    pub(super) name: String,
    /// Where its head begins.
    pub(super) begin: usize,
    /// Where its first series begins.
    pub(super) series: usize,
}

/// One family of a page: its head, and its series part by part.
struct Joined<'p> {
    head: &'p [u8],
    series: Vec<&'p [u8]>,
}

impl Joined<'_> {
    fn len(&self) -> usize {
        self.head.len() + self.series.iter().map(|series| series.len()).sum::<usize>()
    }
}

/// The page that has the families of all parts, in the order in which they first appear.
pub fn join(format: Format, mut parts: Vec<Part>) -> Vec<u8> {
    if let (1, Format::Text | Format::OpenMetrics) = (parts.len(), format) {
        let mut page = parts.remove(0).bytes;
        page.extend_from_slice(end(format));
        // It grew by doubling, and a slow client may keep it for long.
        page.shrink_to_fit();
        return page;
    }

    let families = families(&parts);

    let len_before = |family: &Joined<'_>| match format {
        Format::Protobuf => varint_len(family.len() as u64),
        Format::Text | Format::OpenMetrics => 0,
    };

    // Sized first: a page of ten thousand nodes is 73 MB, and growing would hold it twice.
    let bytes: usize = families.iter().map(|family| len_before(family) + family.len()).sum();
    let mut page = Vec::with_capacity(bytes + end(format).len());

    for family in &families {
        if format == Format::Protobuf {
            push_varint(&mut page, family.len() as u64);
        }
        page.extend_from_slice(family.head);
        family.series.iter().for_each(|series| page.extend_from_slice(series));
    }

    page.extend_from_slice(end(format));
    page
}

/// What stands at the end of a page.
fn end(format: Format) -> &'static [u8] {
    if format == Format::OpenMetrics { b"# EOF\n" } else { b"" }
}

fn families(parts: &[Part]) -> Vec<Joined<'_>> {
    let mut families: Vec<Joined<'_>> = Vec::new();
    let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();

    for Part { bytes, families: of_part } in parts {
        let ends = of_part.iter().skip(1).map(|next| next.begin).chain([bytes.len()]);
        for (PartFamily { name, begin, series }, end) in of_part.iter().zip(ends) {
            // Families keep the order in which they first come, so a
            // page in parts reads like one that was written at once.
            let place = *by_name.entry(name).or_insert(families.len());
            if place == families.len() {
                families.push(Joined { head: &bytes[*begin..*series], series: Vec::new() });
            }
            families[place].series.push(&bytes[*series..end]);
        }
    }
    families
}
