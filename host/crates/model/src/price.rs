//! What a request costs: prices of a model, and the cost of a request in exact numbers.

use super::ModelUsage;
use act_core::Usd;

/// The prices of one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    pub rates: Rates,
    /// Other rates for a request with a long prompt, if the provider has them.
    pub long_prompt: Option<LongPrompt>,
}

/// The rates of a request whose prompt, cached or not, has more than `above` tokens. They are in force for the whole request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongPrompt {
    pub above: u64,
    pub rates: Rates,
}

/// Prices of a million tokens, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Tokens of the prompt that no cache had.
    pub input: Usd,
    /// Tokens of the prompt that came from the provider's cache.
    pub cached_input: Usd,
    /// Tokens of the prompt that the provider wrote to its cache.
    pub cache_write: Usd,
    pub output: Usd,
}

impl Price {
    /// The price of a model that costs nothing: the script of a demo.
    pub const NOTHING: Self = {
        let nothing = Usd::ZERO;
        let rates =
            Rates { input: nothing, cached_input: nothing, cache_write: nothing, output: nothing };
        Self { rates, long_prompt: None }
    };

    /// Returns the cost of one request. It is rounded up to the next nano-dollar, so that a limit is never passed by rounding.
    ///
    /// ```
    /// use act_core::Usd;
    /// use act_model::{ModelUsage, Price, Rates};
    ///
    /// let usd = |text| Usd::parse(text).unwrap();
    /// let [input, cached_input, cache_write, output] = ["2", "0.2", "2.5", "10"].map(usd);
    /// let rates = Rates { input, cached_input, cache_write, output };
    /// let usage = ModelUsage { input: 1000, cached: 600, cache_write: 100, output: 10 };
    /// // 300 · $2 + 600 · $0.20 + 100 · $2.50 + 10 · $10, each of a million tokens
    /// assert_eq!(Price { rates, long_prompt: None }.cost(&usage), usd("0.00107"));
    /// ```
    pub fn cost(&self, usage: &ModelUsage) -> Usd {
        let long = self.long_prompt.filter(|long| usage.input > long.above);
        let rates = long.map_or(self.rates, |long| long.rates);
        // A provider that counts more cached tokens than tokens of the prompt is not believed.
        let cached = usage.cached.min(usage.input);
        let written = usage.cache_write.min(usage.input - cached);
        let priced = [
            (usage.input - cached - written, rates.input),
            (cached, rates.cached_input),
            (written, rates.cache_write),
            (usage.output, rates.output),
        ];
        // Each product fits: both factors have 64 bits, and four products of at most 2^63 · 10^15 are below 2^128.
        let sum = priced.into_iter().fold(0_u128, |sum, (tokens, rate)| {
            sum.saturating_add(u128::from(tokens).saturating_mul(u128::from(rate.nanos())))
        });
        Usd::from_nanos(u64::try_from(sum.div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(prices: [&str; 4]) -> Rates {
        let [input, cached_input, cache_write, output] =
            prices.map(|price| Usd::parse(price).unwrap());
        Rates { input, cached_input, cache_write, output }
    }

    fn usage(input: u64, cached: u64, cache_write: u64, output: u64) -> ModelUsage {
        ModelUsage { input, cached, cache_write, output }
    }

    #[test]
    fn a_long_prompt_is_charged_by_its_own_rates_as_a_whole() {
        let long = LongPrompt { above: 100, rates: rates(["4", "0.4", "5", "15"]) };
        let price = Price { rates: rates(["2", "0.2", "2.5", "10"]), long_prompt: Some(long) };
        assert_eq!(price.cost(&usage(100, 0, 0, 10)), Usd::parse("0.0003").unwrap());
        assert_eq!(price.cost(&usage(101, 0, 0, 10)), Usd::parse("0.000554").unwrap());
    }

    #[test]
    fn less_than_a_nano_dollar_counts_as_one() {
        let price = Price { rates: rates(["0.0001", "0", "0", "0"]), long_prompt: None };
        assert_eq!(price.cost(&usage(1, 0, 0, 0)).nanos(), 1);
        assert_eq!(price.cost(&usage(10, 0, 0, 0)).nanos(), 1);
        assert_eq!(price.cost(&usage(11, 0, 0, 0)).nanos(), 2);
        assert_eq!(price.cost(&usage(0, 0, 0, 0)), Usd::ZERO);
    }

    #[test]
    fn counts_that_cannot_be_make_nothing_cheap_and_nothing_wraps() {
        let price = Price { rates: rates(["2", "0.2", "2.5", "10"]), long_prompt: None };
        let whole = price.cost(&usage(10, 10, 0, 0));
        assert_eq!(price.cost(&usage(10, 99, 99, 0)), whole, "no more cached than there was");
        let most = Usd::MOST;
        let rates = Rates { input: most, cached_input: most, cache_write: most, output: most };
        let huge = Price { rates, long_prompt: None }.cost(&usage(u64::MAX, 0, 0, u64::MAX));
        assert_eq!(huge.nanos(), u64::MAX);
    }
}
