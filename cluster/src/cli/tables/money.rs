//! Money in cells of tables.

use super::UNKNOWN;
use hopeval_jobs::report::price_gap::PriceGap;

/// An amount to `digits` places with its currency, or a dash if it is not known; with what is lacking in its prices.
pub(crate) fn money_text(
    money: Option<f64>,
    digits: usize,
    currency: Option<&str>,
    price_gap: Option<&PriceGap>,
) -> String {
    let currency = currency.unwrap_or_default();
    let amount =
        money.map_or_else(|| UNKNOWN.to_owned(), |money| format!("{money:.digits$} {currency}").trim_end().to_owned());
    price_gap.map_or(amount.clone(), |gap| format!("{amount} ({gap})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_of_a_sum_is_not_shown_as_the_whole() {
        assert_eq!(money_text(Some(0.125), 2, Some("EUR"), None), "0.12 EUR");
        assert_eq!(money_text(Some(0.125), 3, None, None), "0.125");
        assert_eq!(money_text(None, 6, Some("EUR"), None), "–");
        let part = PriceGap::Unpriced { priced: 40, answers: 52 };
        assert_eq!(money_text(None, 6, Some("EUR"), Some(&part)), "– (40 of 52 answers priced)");
        let names = PriceGap::Currencies(vec!["EUR".to_owned(), "USD".to_owned()]);
        assert_eq!(money_text(None, 6, Some("EUR+USD"), Some(&names)), "– (in EUR and USD)");
        let earlier = money_text(Some(1.0), 1, Some("EUR"), Some(&PriceGap::Uncounted));
        assert_eq!(earlier, "1.0 EUR (answers without a price not counted)");
    }
}
