//! Says what is lacking where the money of answers has no sum, although some of them have a price.

use crate::services::price_sum::currency_names;
use hopeval_results::tables::CostRow;
use serde::Serialize;
use std::fmt;

/// The gap in the prices of answers: why their money has no sum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PriceGap {
    /// Some answers have no price: a run whose job named none has journalled them.
    Unpriced {
        /// Answers with a price.
        priced: u64,
        /// All of them.
        answers: u64,
    },
    /// The prices are in these currencies.
    Currencies(Vec<String>),
    /// An earlier version did not count the answers without a price, and left them out of its sum.
    Uncounted,
}

impl PriceGap {
    /// The gap of a row; `None` where its money is whole, and where nothing has a price.
    pub fn of_row(row: &CostRow) -> Option<Self> {
        let currency = row.currency.as_deref()?;
        match row.unpriced {
            // The costs of files, and the price of a device, are of no attempts.
            None => row.attempts.map(|_| Self::Uncounted),
            Some(unpriced) => {
                let answers = if row.configuration.is_some() { row.requests } else { row.computed.unwrap_or(0) };
                Self::of_answers(answers, unpriced, currency_names(currency).map(str::to_owned).collect())
            }
        }
    }

    /// The gap of `answers`, of which `unpriced` have no price and the others prices in these currencies.
    pub(super) fn of_answers(answers: u64, unpriced: u64, currencies: Vec<String>) -> Option<Self> {
        match (unpriced, currencies.len()) {
            (0, 0 | 1) => None,
            (0, _) => Some(Self::Currencies(currencies)),
            _ => Some(Self::Unpriced { priced: answers.saturating_sub(unpriced), answers }),
        }
    }
}

impl fmt::Display for PriceGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unpriced { priced, answers } => write!(f, "{priced} of {answers} answers priced"),
            Self::Currencies(names) => write!(f, "in {}", names.join(" and ")),
            Self::Uncounted => f.write_str("answers without a price not counted"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_says_how_many_answers_have_a_price() {
        let row = |money: Option<f64>, currency: Option<&str>, unpriced| CostRow {
            configuration: Some("a".to_owned()),
            requests: 52,
            attempts: Some(60),
            money,
            currency: currency.map(str::to_owned),
            unpriced,
            ..CostRow::default()
        };
        let said = |row: &CostRow| PriceGap::of_row(row).map(|gap| gap.to_string());
        assert_eq!(said(&row(Some(1.0), Some("EUR"), Some(0))), None);
        assert_eq!(said(&row(None, Some("EUR"), Some(12))).as_deref(), Some("40 of 52 answers priced"));
        assert_eq!(said(&row(None, Some("EUR"), Some(52))).as_deref(), Some("0 of 52 answers priced"));
        assert_eq!(said(&row(None, None, Some(52))), None, "no service has a price");
        assert_eq!(said(&row(None, Some("EUR+USD"), Some(0))).as_deref(), Some("in EUR and USD"));
        assert_eq!(said(&row(None, Some("EUR+USD"), Some(2))).as_deref(), Some("50 of 52 answers priced"));
        let earlier = row(Some(1.0), Some("EUR"), None);
        let gap = "answers without a price not counted";
        assert_eq!(said(&earlier).as_deref(), Some(gap));
        // Incurred: of the answers that the run has computed.
        let incurred = CostRow { configuration: None, computed: Some(9), ..row(None, Some("EUR"), Some(2)) };
        assert_eq!(said(&incurred).as_deref(), Some("7 of 9 answers priced"));
        assert_eq!(said(&CostRow { configuration: None, ..earlier }), Some(gap.to_owned()));
        // The costs of files, and the price of a device, are of no answers.
        assert_eq!(said(&CostRow { attempts: None, ..row(Some(1.0), Some("EUR"), None) }), None);
    }

    #[test]
    fn a_document_has_the_counts() {
        let json = |gap: PriceGap| serde_json::to_string(&gap).unwrap();
        let part = PriceGap::Unpriced { priced: 40, answers: 52 };
        assert_eq!(json(part), r#"{"unpriced":{"priced":40,"answers":52}}"#);
        let names = vec!["EUR".to_owned(), "USD".to_owned()];
        assert_eq!(json(PriceGap::Currencies(names)), r#"{"currencies":["EUR","USD"]}"#);
        assert_eq!(json(PriceGap::Uncounted), r#""uncounted""#);
    }
}
