//! The Pareto front of quality against cost.

/// Whether each point, a cost and a quality, is on the front: no other one costs at most as much and is at least as
/// good, and better in one of the two. Equal points are on it together. Points without a cost or a quality are not on
/// it, and beat none.
pub(super) fn pareto_front(points: &[(Option<f64>, Option<f64>)]) -> Vec<bool> {
    let known: Vec<(usize, f64, f64)> =
        points.iter().enumerate().filter_map(|(at, &(cost, quality))| Some((at, cost?, quality?))).collect();
    let mut sorted = known;
    sorted.sort_by(|a, b| a.1.total_cmp(&b.1).then(b.2.total_cmp(&a.2)));
    let mut is_on_front = vec![false; points.len()];
    // The best quality of lower or equal costs so far, and its cost.
    let mut best: Option<(f64, f64)> = None;
    for (at, cost, quality) in sorted {
        let is_beaten = best.is_some_and(|(known, of)| known > quality || (known == quality && of < cost));
        is_on_front[at] = !is_beaten;
        if best.is_none_or(|(known, _)| quality > known) {
            best = Some((quality, cost));
        }
    }
    is_on_front
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_points_are_on_the_front_together() {
        let points = [(1.0, 0.5), (1.0, 0.5), (1.0, 0.4), (2.0, 0.5), (3.0, 0.6), (0.5, 0.1)];
        let points: Vec<_> = points.into_iter().map(|(cost, quality)| (Some(cost), Some(quality))).collect();
        assert_eq!(pareto_front(&points), [true, true, false, false, true, true]);
    }

    #[test]
    fn unknown_figures_are_not_on_the_front() {
        let points = [(None, Some(1.0)), (Some(0.0), None), (Some(2.0), Some(0.1)), (Some(1.0), Some(0.1))];
        assert_eq!(pareto_front(&points), [false, false, false, true]);
    }
}
