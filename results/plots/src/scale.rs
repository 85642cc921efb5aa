//! Places values along an axis, and chooses the axis's ticks.

/// From a range of values to a range of positions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AxisScale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    /// The distance of two ticks; a logarithmic axis has one at each power of ten.
    step: AxisStep,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum AxisStep {
    Linear(f64),
    Decade,
}

/// Positive values that differ by more than this factor get a logarithmic axis, where one is allowed.
const WIDE: f64 = 30.0;

impl AxisScale {
    /// A linear axis of round ends over the values; the positions of its ends are `from` and `to`. An axis of 0 alone
    /// goes to 1.
    pub(crate) fn linear(values: impl Iterator<Item = f64>, (from, to): (f64, f64)) -> Self {
        let (low, high) = match range(values) {
            (0.0, 0.0) => (0.0, 1.0),
            (low, high) if low < high => (low, high),
            (low, high) => (low - low.abs() * 0.1, high + high.abs() * 0.1),
        };
        let step = round_step(low, high);
        let (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
        Self { low, high, from, to, step: AxisStep::Linear(step) }
    }

    /// A linear axis that has 0.
    pub(crate) fn from_zero(values: impl Iterator<Item = f64>, places: (f64, f64)) -> Self {
        Self::linear(values.chain([0.0]), places)
    }

    /// A logarithmic axis if all values are above 0 and far apart; else a linear one that has 0.
    pub(crate) fn of_costs(values: &[f64], (from, to): (f64, f64)) -> Self {
        let (low, high) = range(values.iter().copied());
        if !(low > 0.0 && high / low > WIDE) {
            return Self::from_zero(values.iter().copied(), (from, to));
        }
        let (low, high) = (10_f64.powf(low.log10().floor()), 10_f64.powf(high.log10().ceil()));
        Self { low, high, from, to, step: AxisStep::Decade }
    }

    /// The position of a value.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let share = match self.step {
            AxisStep::Decade => {
                (value.max(self.low).log10() - self.low.log10()) / (self.high.log10() - self.low.log10())
            }
            AxisStep::Linear(_) => (value - self.low) / (self.high - self.low),
        };
        self.from + share * (self.to - self.from)
    }

    /// The name of the axis with the word for its kind, unless it is linear.
    pub(crate) fn title_of(&self, name: &str) -> String {
        match self.step {
            AxisStep::Decade => format!("{name}, logarithmic"),
            AxisStep::Linear(_) => name.to_owned(),
        }
    }

    /// Whether the axis has a value.
    pub(crate) fn has(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// The values of the ticks with their labels.
    pub(crate) fn ticks(&self) -> Vec<(f64, String)> {
        let AxisStep::Linear(step) = self.step else {
            let decades = self.low.log10().round() as i32..=self.high.log10().round() as i32;
            return decades.map(|decade| 10_f64.powi(decade)).map(|value| (value, tick_text(value))).collect();
        };
        let count = ((self.high - self.low) / step).round() as i64;
        let first = (self.low / step).round();
        (0..=count).map(|at| (first + at as f64) * step).map(|value| (value, tick_text(value))).collect()
    }
}

/// The smallest and the largest of the finite values; 0 and 1 without any.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let ends = values.filter(|value| value.is_finite()).fold(None, |ends: Option<(f64, f64)>, value| {
        let (low, high) = ends.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    });
    ends.unwrap_or((0.0, 1.0))
}

/// A step of 1, 2 or 5 times a power of ten that gives four to eleven ticks.
fn round_step(low: f64, high: f64) -> f64 {
    let rough = (high - low).max(f64::MIN_POSITIVE) / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let factor = rough / power;
    power
        * if factor < 1.5 {
            1.0
        } else if factor < 3.5 {
            2.0
        } else if factor < 7.5 {
            5.0
        } else {
            10.0
        }
}

/// A tick's value in few characters.
pub(crate) fn tick_text(value: f64) -> String {
    let size = value.abs();
    if size > 0.0 && !(1e-3..1e6).contains(&size) {
        return format!("{value:.1e}").replace(".0e", "e");
    }
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_on_the_axis_from_end_to_end() {
        for low in (0..40).map(|n| f64::from(n) * 0.013) {
            for high in (1..60).map(|n| low + f64::from(n) * 0.017) {
                let axis = AxisScale::linear([low, high].into_iter(), (10.0, 90.0));
                let places: Vec<f64> = axis.ticks().iter().map(|tick| axis.place(tick.0)).collect();
                let ends = (places[0], places[places.len() - 1]);
                assert!((ends.0 - 10.0).abs() < 1e-6 && (ends.1 - 90.0).abs() < 1e-6, "{low} {high}: {places:?}");
                assert!((4..=11).contains(&places.len()), "{low} {high}: {places:?}");
            }
        }
    }

    #[test]
    fn axes_end_at_round_values() {
        let axis = AxisScale::linear([0.13, 0.78].into_iter(), (0.0, 100.0));
        let labels: Vec<String> = axis.ticks().into_iter().map(|tick| tick.1).collect();
        assert_eq!(labels, ["0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8"]);
        assert_eq!(axis.place(0.1).round(), 0.0);
        let axis = AxisScale::of_costs(&[0.002, 7.0], (0.0, 100.0));
        let labels: Vec<String> = axis.ticks().into_iter().map(|tick| tick.1).collect();
        assert_eq!(labels, ["0.001", "0.01", "0.1", "1", "10"]);
        assert!(AxisScale::of_costs(&[0.0, 7.0], (0.0, 100.0)).place(0.0).abs() < 1e-9);
        assert_eq!(axis.title_of("seconds"), "seconds, logarithmic");
        assert!(AxisScale::linear([3.0, 3.0].into_iter(), (0.0, 1.0)).place(3.0).is_finite());
        let axis = AxisScale::of_costs(&[0.0, 0.0], (0.0, 100.0));
        assert_eq!((axis.place(0.0), axis.place(1.0)), (0.0, 100.0));
        assert_eq!(axis.title_of("tokens"), "tokens");
        assert!(AxisScale::linear(std::iter::empty(), (0.0, 1.0)).place(0.5).is_finite());
    }
}
