//! A network as bytes: a checkpoint that can be told from a broken one.
//!
//! Layout, little-endian: eight bytes of name, the number of widths and the widths as u32, all
//! parameters as f32 in the order of `Network::parameters`, and the checksum of all before it.

use crate::artefact::checksum;
use crate::network::Network;

const NAME: &[u8; 8] = b"PLIMNET1";
/// More widths than any network here has.
const WIDTHS_MAX: usize = 16;
/// More outputs than any layer here has; its square cannot overflow.
const WIDTH_MAX: usize = 4_096;

/// The network's checkpoint.
#[must_use]
pub fn encode(network: &Network) -> Vec<u8> {
    let sizes = network.sizes();
    let mut bytes = NAME.to_vec();
    for number in std::iter::once(sizes.len()).chain(sizes.iter().copied()) {
        let number = u32::try_from(number).expect("widths are written in the source");
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(network.parameters().flat_map(|parameter| parameter.to_le_bytes()));
    bytes.extend(checksum(&bytes).to_le_bytes());
    bytes
}

/// The network of a checkpoint; nothing if the bytes are not exactly one intact checkpoint.
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<Network> {
    let (content, sum) = bytes.split_last_chunk::<8>()?;
    if checksum(content) != u64::from_le_bytes(*sum) {
        return None;
    }
    let mut words = content.strip_prefix(NAME)?.chunks_exact(4).map(<[u8; 4]>::try_from);
    let mut next = || words.next().and_then(Result::ok);
    let mut width = || usize::try_from(u32::from_le_bytes(next()?)).ok();
    let count = width().filter(|count| (2..=WIDTHS_MAX).contains(count))?;
    let sizes: Option<Vec<usize>> = (0..count).map(|_| width()).collect();
    let sizes = sizes.filter(|sizes| sizes.iter().all(|size| (1..=WIDTH_MAX).contains(size)))?;
    let parameters: usize = sizes.windows(2).map(|pair| (pair[0] + 1) * pair[1]).sum();
    if content.len() != NAME.len() + 4 * (1 + count + parameters) {
        return None;
    }
    let mut network = Network::zero(&sizes);
    for parameter in network.parameters_mut() {
        *parameter = f32::from_le_bytes(next()?);
    }
    Some(network)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rng::Generator;

    fn network(seed: u64) -> Network {
        Network::random(&[2, 7, 3], &mut Generator::new(seed, 0))
    }

    fn sealed(mut content: Vec<u8>) -> Vec<u8> {
        content.extend(checksum(&content).to_le_bytes());
        content
    }

    proptest! {
        #[test]
        fn decoding_undoes_encoding(seed: u64) {
            prop_assert_eq!(decode(&encode(&network(seed))), Some(network(seed)));
        }

        #[test]
        fn one_flipped_bit_is_refused(bit: prop::sample::Index) {
            let mut bytes = encode(&network(1));
            let bit = bit.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(decode(&bytes), None);
        }

        #[test]
        fn any_bytes_are_refused_or_read_without_a_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            prop_assert_eq!(decode(&bytes), None);
            let read = decode(&sealed([NAME.as_slice(), &bytes].concat()));
            prop_assert!(read.is_none_or(|network| !network.sizes().is_empty()));
        }
    }

    #[test]
    fn widths_that_promise_more_than_there_is_are_refused_before_room_is_made() {
        let words = [2, 4_096, 4_096].map(u32::to_le_bytes).concat();
        assert_eq!(decode(&sealed([NAME.as_slice(), &words].concat())), None);
    }
}
