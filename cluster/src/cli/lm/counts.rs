//! Parses numbers of tokens and lines in options.

/// A number of tokens or lines: at least one, and at most any memory's size.
pub(super) fn count(text: &str) -> Result<usize, String> {
    const MOST: usize = 1 << 30;
    let wrong = || format!("a number from 1 to {MOST} is needed");
    text.parse::<usize>().ok().filter(|n| (1..=MOST).contains(n)).ok_or_else(wrong)
}

/// A window is allocated whole.
pub(super) fn window(text: &str) -> Result<usize, String> {
    const MOST: usize = 1 << 20;
    count(text).ok().filter(|&lines| lines <= MOST).ok_or_else(|| format!("a number from 1 to {MOST} is needed"))
}
