//! Adds up the prices of an endpoint's answers.
//!
//! An answer keeps in the journal the price that it had when it was computed. So the answers of one service may have
//! prices of different jobs, in other currencies, or none, where a job named no price. A sum that leaves answers out is
//! too low, and one over two currencies means nothing: neither is a sum here.

use hopeval_methods::MoneyAmount;
use hopeval_results::tables::MeasuredCallRow;
use std::collections::BTreeSet;

/// Stands between the currencies of a sum. Names of currencies are letters.
const SEPARATOR: char = '+';

/// The sum of the prices of several answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PriceSum {
    /// Billionths of the currencies' units; `None` once an answer has no price.
    nanos: Option<u64>,
    currencies: BTreeSet<String>,
    /// Answers without a price; `None` once a row of an earlier version, which does not count them, is among them.
    unpriced: Option<u64>,
}

impl Default for PriceSum {
    fn default() -> Self {
        Self { nanos: Some(0), currencies: BTreeSet::new(), unpriced: Some(0) }
    }
}

impl PriceSum {
    /// Adds the price of one answer.
    pub(crate) fn add_answer(&mut self, money: Option<&MoneyAmount>) {
        self.nanos = self.nanos.zip(money).map(|(sum, money)| sum + money.nanos);
        match money {
            Some(money) if !self.currencies.contains(&money.currency) => {
                self.currencies.insert(money.currency.clone());
            }
            Some(_) => {}
            None => self.unpriced = self.unpriced.map(|unpriced| unpriced + 1),
        }
    }

    /// Adds the stored sum of an outcome's answers.
    pub(crate) fn add_row(&mut self, row: &MeasuredCallRow) {
        self.nanos = self.nanos.zip(row.money_nanos).map(|(sum, more)| sum + more);
        self.currencies.extend(row.currency.iter().flat_map(|names| currency_names(names)).map(str::to_owned));
        self.unpriced = self.unpriced.zip(row.unpriced).map(|(sum, more)| sum + more);
    }

    /// Billionths of the currency's unit; `None` unless every answer has a price, all in one currency.
    pub(crate) fn nanos(&self) -> Option<u64> {
        self.nanos.filter(|_| self.currencies.len() <= 1)
    }

    /// The currencies, as tables have them: one name, or several joined; `None` without a price.
    pub(crate) fn currency(&self) -> Option<String> {
        let names: Vec<&str> = self.currencies.iter().map(String::as_str).collect();
        (!names.is_empty()).then(|| names.join(&SEPARATOR.to_string()))
    }

    /// Answers without a price; `None` if a row of an earlier version does not say it.
    pub(crate) fn unpriced(&self) -> Option<u64> {
        self.unpriced
    }
}

/// The currencies in a cell of a table.
pub(crate) fn currency_names(cell: &str) -> impl Iterator<Item = &str> {
    cell.split(SEPARATOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn money(nanos: u64, currency: &str) -> MoneyAmount {
        MoneyAmount { nanos, currency: currency.to_owned() }
    }

    fn sum(answers: &[Option<MoneyAmount>]) -> PriceSum {
        let mut sum = PriceSum::default();
        answers.iter().for_each(|answer| sum.add_answer(answer.as_ref()));
        sum
    }

    /// The sum as tables keep it.
    fn row(sum: &PriceSum) -> MeasuredCallRow {
        MeasuredCallRow {
            money_nanos: sum.nanos(),
            currency: sum.currency(),
            unpriced: sum.unpriced(),
            ..MeasuredCallRow::default()
        }
    }

    #[test]
    fn an_answer_without_a_price_leaves_no_sum() {
        let whole = sum(&[Some(money(3, "EUR")), Some(money(4, "EUR"))]);
        assert_eq!((whole.nanos(), whole.currency().as_deref(), whole.unpriced()), (Some(7), Some("EUR"), Some(0)));
        for order in [[Some(money(3, "EUR")), None, None], [None, None, Some(money(3, "EUR"))]] {
            let part = sum(&order);
            assert_eq!((part.nanos(), part.currency().as_deref(), part.unpriced()), (None, Some("EUR"), Some(2)));
        }
        let free = sum(&[None]);
        assert_eq!((free.nanos(), free.currency(), free.unpriced()), (None, None, Some(1)));
        assert_eq!((PriceSum::default().nanos(), PriceSum::default().currency()), (Some(0), None), "nothing was asked");
    }

    #[test]
    fn two_currencies_have_no_sum_in_any_order() {
        for order in [["EUR", "USD", "EUR"], ["EUR", "EUR", "USD"], ["USD", "EUR", "EUR"]] {
            let mixed = sum(&order.map(|currency| Some(money(5, currency))));
            assert_eq!((mixed.nanos(), mixed.currency().as_deref()), (None, Some("EUR+USD")), "{order:?}");
            assert_eq!(mixed.unpriced(), Some(0));
        }
    }

    #[test]
    fn sums_of_outcomes_are_added_as_their_answers_are() {
        let (euros, dollars) = (sum(&[Some(money(3, "EUR"))]), sum(&[Some(money(4, "USD"))]));
        let (part, nothing) = (sum(&[Some(money(2, "EUR")), None]), sum(&[None, None]));
        let added = |sums: &[&PriceSum]| {
            let mut all = PriceSum::default();
            sums.iter().for_each(|sum| all.add_row(&row(sum)));
            (all.nanos(), all.currency().unwrap_or_default(), all.unpriced())
        };
        assert_eq!(added(&[&euros, &euros]), (Some(6), "EUR".to_owned(), Some(0)));
        assert_eq!(added(&[&euros, &dollars, &euros]), (None, "EUR+USD".to_owned(), Some(0)));
        assert_eq!(added(&[&euros, &part]), (None, "EUR".to_owned(), Some(1)));
        assert_eq!(added(&[&nothing, &euros]), (None, "EUR".to_owned(), Some(2)));
        // Rows of earlier versions have no count.
        let earlier = MeasuredCallRow { unpriced: None, ..row(&euros) };
        let mut all = PriceSum::default();
        all.add_row(&earlier);
        all.add_row(&row(&euros));
        assert_eq!((all.nanos(), all.unpriced()), (Some(6), None));
    }
}
