//! Timing in turns: the contenders alternate, so that other load on the machine affects them alike.

use std::time::Instant;

use anyhow::Result;

use crate::report::Figure;

/// Repeated measurements of one thing, in seconds or bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// A single measurement.
    pub(crate) fn of(value: f64) -> Self {
        Self(vec![value])
    }

    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// Adds the measurements of `other`.
    pub(crate) fn extend(&mut self, other: &Self) {
        self.0.extend(&other.0);
    }

    /// The quantile `share` of the measurements.
    pub(crate) fn at(&self, share: f64) -> Self {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        Self(vec![quantile(&sorted, share)])
    }

    /// The median and the quartiles; NaN without measurements.
    pub(crate) fn figure(&self) -> Figure {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        Figure {
            median: quantile(&sorted, 0.5),
            quartiles: (quantile(&sorted, 0.25), quantile(&sorted, 0.75)),
        }
    }
}

/// Interpolates between the two nearest values.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let place = last as f64 * share;
    let (low, high) = (
        sorted[place.floor() as usize],
        sorted[place.ceil() as usize],
    );
    low + (high - low) * place.fract()
}

/// Returns the duration of `action` in seconds, and its result.
pub(crate) fn timed<T>(action: impl FnOnce() -> Result<T>) -> Result<(f64, T)> {
    let started = Instant::now();
    let result = action()?;
    Ok((started.elapsed().as_secs_f64(), result))
}

/// A measurement that can be repeated. The function prepares its data and returns the measured
/// value, which does not include the preparation.
pub(crate) type Contender<'a> = Box<dyn FnMut() -> Result<f64> + 'a>;

/// Runs each contender `rounds` times, in turns; each round starts with another one.
pub(crate) fn interleave<const N: usize>(
    rounds: usize,
    mut contenders: [Contender<'_>; N],
) -> Result<[Samples; N]> {
    let mut samples = std::array::from_fn(|_| Samples::default());
    for round in 0..rounds {
        for turn in 0..N {
            let which = (round + turn) % N;
            samples[which].push(contenders[which]()?);
        }
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn the_median_lies_between_the_middle_values() {
        let samples = Samples(vec![4.0, 1.0, 3.0, 2.0]);
        let figure = samples.figure();
        assert_eq!(figure.median, 2.5);
        assert_eq!(figure.quartiles, (1.75, 3.25));
        assert!(Samples::default().figure().median.is_nan());
    }

    #[test]
    fn contenders_take_turns_and_each_is_first_in_some_round() {
        let order = RefCell::new(String::new());
        let contender = |name: char, value: f64| -> Contender<'_> {
            let order = &order;
            Box::new(move || {
                order.borrow_mut().push(name);
                Ok(value)
            })
        };
        let [a, b] = interleave(3, [contender('a', 1.0), contender('b', 2.0)]).unwrap();
        assert_eq!(*order.borrow(), "abbaab");
        assert_eq!((a.0, b.0), (vec![1.0; 3], vec![2.0; 3]));
    }

    #[test]
    fn a_failing_contender_ends_the_measure() {
        let failing: Contender<'_> = Box::new(|| anyhow::bail!("no"));
        assert!(interleave(3, [failing]).is_err());
    }
}
