//! The assignment of rows to columns with the highest total, by the Hungarian algorithm (Kuhn 1955, Munkres 1957; the
//! form with potentials and shortest augmenting paths), in O(rows² · columns).

/// Pairs of (row, column) that maximise the sum of `scores`, each row and column at most once. There are as many pairs
/// as the smaller side has entries. Deterministic: equal totals resolve towards low columns.
pub(crate) fn best_assignment(scores: &[Vec<f64>]) -> Vec<(usize, usize)> {
    let (rows, columns) = (scores.len(), scores.first().map_or(0, Vec::len));
    if rows > columns {
        let transposed: Vec<Vec<f64>> = (0..columns).map(|c| scores.iter().map(|row| row[c]).collect()).collect();
        return best_assignment(&transposed).into_iter().map(|(c, r)| (r, c)).collect();
    }
    // Index 0 of rows and columns is the algorithm's sentinel; costs are negated scores.
    let mut row_potential = vec![0.0; rows + 1];
    let mut column_potential = vec![0.0; columns + 1];
    let mut row_of = vec![0; columns + 1];
    for row in 1..=rows {
        row_of[0] = row;
        let mut column = 0;
        let mut slack = vec![f64::INFINITY; columns + 1];
        let mut came_from = vec![0; columns + 1];
        let mut visited = vec![false; columns + 1];
        while row_of[column] != 0 {
            visited[column] = true;
            let here = row_of[column];
            let (mut delta, mut next) = (f64::INFINITY, 0);
            for c in 1..=columns {
                if visited[c] {
                    continue;
                }
                let reduced = -scores[here - 1][c - 1] - row_potential[here] - column_potential[c];
                if reduced < slack[c] {
                    slack[c] = reduced;
                    came_from[c] = column;
                }
                if slack[c] < delta {
                    delta = slack[c];
                    next = c;
                }
            }
            for c in 0..=columns {
                if visited[c] {
                    row_potential[row_of[c]] += delta;
                    column_potential[c] -= delta;
                } else {
                    slack[c] -= delta;
                }
            }
            column = next;
        }
        while column != 0 {
            row_of[column] = row_of[came_from[column]];
            column = came_from[column];
        }
    }
    (1..=columns).filter(|&c| row_of[c] != 0).map(|c| (row_of[c] - 1, c - 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn total(scores: &[Vec<f64>], pairs: &[(usize, usize)]) -> f64 {
        pairs.iter().map(|&(r, c)| scores[r][c]).sum()
    }

    /// The best total, by trying every assignment of the remaining rows.
    fn by_trying(scores: &[Vec<f64>], row: usize, used: &mut [bool]) -> f64 {
        if row == scores.len() {
            return 0.0;
        }
        let mut best = by_trying(scores, row + 1, used);
        for c in 0..used.len() {
            if !used[c] {
                used[c] = true;
                best = best.max(scores[row][c] + by_trying(scores, row + 1, used));
                used[c] = false;
            }
        }
        best
    }

    #[test]
    fn empty_sides() {
        assert!(best_assignment(&[]).is_empty());
        assert!(best_assignment(&[vec![], vec![]]).is_empty());
    }

    proptest! {
        #[test]
        fn no_assignment_is_better(
            rows in 1usize..5,
            columns in 1usize..5,
            cells in proptest::collection::vec(0u8..20, 25),
        ) {
            let scores: Vec<Vec<f64>> =
                (0..rows).map(|r| (0..columns).map(|c| f64::from(cells[r * 5 + c])).collect()).collect();
            let pairs = best_assignment(&scores);
            prop_assert_eq!(pairs.len(), rows.min(columns));
            prop_assert_eq!(total(&scores, &pairs), by_trying(&scores, 0, &mut vec![false; columns]));
        }
    }
}
