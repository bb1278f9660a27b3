//! Which key was probably meant.

/// More changes than these are another word, not a slip.
const CHANGES_MAX: usize = 2;

/// The key that is most like `written`: a few letters off, or the same in another section.
pub(crate) fn suggest(written: &str, known: impl IntoIterator<Item = String>) -> Option<String> {
    let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let few = CHANGES_MAX.min(last(written).chars().count().div_ceil(2));
    let rated = known.into_iter().filter_map(|key| {
        let changes = changes(written, &key);
        let near = changes <= few;
        (near || last(written) == last(&key)).then_some((!near, changes, key))
    });
    rated.min().map(|(_, _, key)| key)
}

/// How many letters must be put in, taken out or replaced to make `b` of `a`.
fn changes(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_offered_and_a_far_one_is_not() {
        let known = ["name", "mesh", "listen.udp", "listen.unix", "bus.url", "http.address"];
        for (written, expected) in [
            ("listen.udpp", Some("listen.udp")),
            ("bus.ulr", Some("bus.url")),
            ("nmae", Some("name")),
            ("udp", Some("listen.udp")),
            ("listen.address", Some("http.address")),
            ("log.x", None),
            ("colour", None),
            ("", None),
        ] {
            let found = suggest(written, known.map(str::to_owned));
            assert_eq!(found.as_deref(), expected, "{written}");
        }
    }
}
