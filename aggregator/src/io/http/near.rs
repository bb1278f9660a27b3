//! Names that are similar to an unknown one.

const NAMED_MAX: usize = 3;
const SIMILAR: f64 = 0.8;

/// A hint for an error: the known names that are similar to the wanted one, or nothing.
pub(super) fn near(wanted: &str, known: impl IntoIterator<Item = String>) -> String {
    let mut rated: Vec<(f64, String)> = known
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&name, wanted), name))
        .filter(|(similarity, _)| *similarity > SIMILAR)
        .collect();
    rated.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let near: Vec<String> =
        rated.into_iter().take(NAMED_MAX).map(|(_, name)| format!("{name:?}")).collect();
    if near.is_empty() { String::new() } else { format!("; similar: {}", near.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_similar_names_are_offered_first() {
        let known = ["train-v41", "train-v42", "load", "train-v4", "train-v43"];
        let of = |wanted| near(wanted, known.map(str::to_owned));
        assert_eq!(of("train-v42b").matches('"').count(), 6, "{}", of("train-v42b"));
        assert!(of("train-v42b").starts_with("; similar: \"train-v42\", "), "{}", of("train-v42b"));
        assert_eq!(of("other"), "");
    }
}
