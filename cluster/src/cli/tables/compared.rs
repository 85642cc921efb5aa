//! Configurations of several runs beside each other.

use super::setup_rows::setup_rows;
use super::{SHORT_NOTE, UNKNOWN, markdown_table, marked, p_value_text};
use hopeval_jobs::report::compare_runs::{ComparedCost, ComparedPair, CostMeasure, QualityDifference};

/// All pairs, each with its set-up, quality and cost.
pub(crate) fn comparison_text(pairs: &[ComparedPair]) -> String {
    pairs.iter().map(pair_text).collect::<Vec<_>>().join("\n")
}

fn pair_text(pair: &ComparedPair) -> String {
    let ComparedPair { against, compared, questions, share, setup, quality, measures_left_out, costs, costs_left_out } =
        pair;
    let mut text = format!(
        "`{}` of run {} against `{}` of run {}\n",
        compared.configuration, compared.run, against.configuration, against.run
    );
    text.push_str(&format!("{questions} questions of both, {:.1} % of those of {}\n", share * 100.0, against.run));
    if setup.is_empty() {
        text.push_str("\nno setting differs\n");
    } else {
        let (rows, is_left_out) = setup_rows(setup);
        text.push_str(&format!("\n{}\n", markdown_table(&["what differs", "against", "compared"], rows.into_iter())));
        if is_left_out {
            text.push_str(
                "\nwithout the settings of services and methods that one of the two has alone: --json has them\n",
            );
        }
    }
    // Measures without a value of both, such as EM of retrievers, get no row.
    let told: Vec<_> = quality.iter().filter(|found| found.n > 0).collect();
    if told.is_empty() {
        text.push_str("\nquality is not compared: no measure has a value of both for a question\n");
    } else {
        text.push_str(&format!(
            "\nquality, paired by question: difference [95 % interval] p value (Holm, over all pairs)\n\n{}\n",
            markdown_table(&["measure", "n", "against", "compared", "difference"], told.into_iter().map(quality_cells))
        ));
    }
    if quality.iter().any(|found| found.ranked.is_some()) {
        text.push_str(&format!("\n{SHORT_NOTE}, of one of the two\n"));
    }
    for (measure, reason) in measures_left_out {
        text.push_str(&format!("\n`{measure}` is not compared: {reason}\n"));
    }
    if !costs.is_empty() {
        text.push_str(&format!(
            "\ncost of a question, unshared, at each run's rates, of devices as the jobs name them; the ratio has a \
             95 % interval over questions\n\n{}\n",
            markdown_table(&["cost", "against", "compared", "ratio"], costs.iter().map(cost_cells))
        ));
    }
    if let Some(reason) = costs_left_out {
        text.push_str(&format!("\ncosts are not compared: {reason}\n"));
    }
    for cost in costs {
        if let Some(reason) = &cost.refused {
            text.push_str(&format!("\n{} are not compared: {reason}\n", cost.cost.title()));
        } else if cost.against.is_none() != cost.compared.is_none() {
            let run = if cost.against.is_none() { &against.run } else { &compared.run };
            let why = match cost.cost {
                CostMeasure::Money => {
                    "no price is known of some of its services, or no rate, since they computed nothing in that run"
                }
                CostMeasure::Operations => "some of its services, such as endpoints, do not count them",
                CostMeasure::WallSeconds => "some of its outcomes were not timed",
                _ => "some of its models computed nothing in that run, so that their rates are not known",
            };
            text.push_str(&format!("\n{} of run {run} are not known: {why}\n", cost.cost.title()));
        }
    }
    text
}

fn quality_cells(found: &QualityDifference) -> Vec<String> {
    let plain = |value: Option<f64>| value.map_or(UNKNOWN.to_owned(), |value| format!("{value:.4}"));
    let signed = |value: Option<f64>| value.map_or(UNKNOWN.to_owned(), |value| format!("{value:+.4}"));
    let interval = format!("[{}, {}]", signed(found.low), signed(found.high));
    let difference = format!("{} {interval} {}", signed(found.difference), p_value_text(found.p_holm));
    vec![
        found.measure.clone(),
        found.n.to_string(),
        plain(found.against_mean),
        plain(found.mean),
        marked(difference, found.ranked),
    ]
}

fn cost_cells(found: &ComparedCost) -> Vec<String> {
    let unit = found.currency.as_ref().map_or(String::new(), |currency| format!(" ({currency})"));
    let shown = |value: Option<f64>| value.map_or(UNKNOWN.to_owned(), significant);
    let interval = found.low.zip(found.high).map_or(String::new(), |(low, high)| format!(" [{low:.3}, {high:.3}]"));
    let ratio = found.ratio.map_or(UNKNOWN.to_owned(), |ratio| format!("{ratio:.3}{interval}"));
    vec![format!("{}{unit}", found.cost.title()), shown(found.against), shown(found.compared), ratio]
}

/// A figure with four significant digits.
fn significant(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        1e6.. => format!("{value:.3e}"),
        1e3.. => format!("{value:.0}"),
        size if size < 1e-4 => format!("{value:.3e}"),
        size => format!("{value:.*}", (3 - size.log10().floor() as i32).max(0) as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_four_digits() {
        let shown = [0.0, 1.0, 12.345, 0.012_345, 123.45, 12_345.6, 1.5e9, 0.000_012_345].map(significant);
        assert_eq!(shown, ["0", "1.000", "12.35", "0.01235", "123.5", "12346", "1.500e9", "1.234e-5"]);
    }
}
