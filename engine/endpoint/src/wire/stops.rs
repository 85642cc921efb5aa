//! Cuts texts at stop strings: those beyond the server's number, and those that a server ignored.

/// The first stop string in a text: the byte where it begins, and its place in `stops`. Of those that begin at one
/// byte the first listed counts.
pub(super) fn find_stop(text: &str, stops: &[String]) -> Option<(usize, usize)> {
    let found = stops.iter().enumerate().filter(|(_, stop)| !stop.is_empty());
    found.filter_map(|(place, stop)| Some((text.find(stop.as_str())?, place))).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_stop_counts() {
        let stops = ["\n".to_owned(), String::new(), "B".to_owned(), "BC".to_owned()];
        assert_eq!(find_stop("aBC\n", &stops), Some((1, 2)));
        assert_eq!(find_stop("a\nB", &stops), Some((1, 0)));
        assert_eq!(find_stop("none", &stops), None);
    }
}
