//! What somebody may have meant by a name that there is not.

/// The names that are most like `name`, if any is: three at most.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    const ALIKE: f64 = 0.7;
    let score = |known: &str| strsim::jaro_winkler(&name.to_lowercase(), &known.to_lowercase());
    let mut near: Vec<_> = known.map(|known| (score(known), known)).collect();
    near.retain(|(score, _)| *score >= ALIKE);
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    near.dedup_by(|a, b| a.1 == b.1);
    near.into_iter().map(|(_, name)| name).take(3).collect()
}

/// `; did you mean 'this' or 'that'?`, or nothing.
pub(crate) fn did_you_mean<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let near: Vec<_> =
        nearest(name, known).into_iter().map(|near| format!("'{}'", near.escape_debug())).collect();
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(" or ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_alike_is_offered_and_nothing_else() {
        let known = ["disk", "fetch", "desk"];
        assert_eq!(did_you_mean("dsik", known.into_iter()), "; did you mean 'disk' or 'desk'?");
        assert_eq!(did_you_mean("xyz", known.into_iter()), "");
    }
}
