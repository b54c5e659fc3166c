//! Rates how much may break when a file is changed: by its importers, its size, its tests and its exported names.

use super::Tests;
use crate::survey::Survey;
use act_kit::reports::facts_a::Risk;
use act_kit::reports::report_a::Level;
use std::cmp::Reverse;

/// Rates every parsed product file, most risky first.
pub(super) fn of<'s>(
    survey: &'s Survey,
    tests: &'s Tests,
) -> impl ExactSizeIterator<Item = Risk> + 's {
    let mut fan_in = vec![0_u32; survey.units.len()];
    survey.edges.iter().for_each(|(_, to)| fan_in[*to as usize] += 1);
    let files = survey.all().filter(|at| survey.is_product(*at) && survey.unit(*at).parsed);
    let mut found = files
        .map(|at| {
            let unit = survey.unit(at);
            let tested = tests.is_exercised(at);
            let points = points(fan_in[at as usize], unit.lines, tested, unit.exported);
            // One number for points, importers and the place, because large repositories have many to sort.
            let rank = u64::from(points) << 60 | u64::from(fan_in[at as usize]) << 32;
            (Reverse(rank | u64::from(u32::MAX - at)), tested)
        })
        .collect::<Vec<_>>();
    found.sort_unstable();
    found.into_iter().map(|(Reverse(rank), tested)| {
        let (points, fan_in) = ((rank >> 60) as u32, (rank >> 32 & 0xfff_ffff) as u32);
        let at = u32::MAX - rank as u32;
        let unit = survey.unit(at);
        Risk {
            path: survey.path(at).to_owned(),
            fan_in: u64::from(fan_in),
            lines: unit.lines,
            tested,
            public_symbols: u64::from(unit.exported),
            level: level(points),
        }
    })
}

fn points(fan_in: u32, lines: u32, tested: bool, public: u32) -> u32 {
    let step =
        |value: u32, some: u32, many: u32| u32::from(value >= some) + u32::from(value >= many);
    2 * step(fan_in, 4, 12)
        + step(lines, 250, 800)
        + step(public, 12, 40)
        + u32::from(!tested && lines >= 20)
}

fn level(points: u32) -> Level {
    match points {
        0..=1 => Level::Low,
        2..=4 => Level::Medium,
        _ => Level::High,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_importers_size_and_missing_tests_add_up() {
        for (fan_in, lines, tested, public, expected) in [
            (0, 10, false, 1, Level::Low),
            (0, 300, true, 1, Level::Low),
            (0, 300, false, 1, Level::Medium),
            (5, 40, true, 3, Level::Medium),
            (12, 40, true, 3, Level::Medium),
            (12, 40, false, 3, Level::High),
            (5, 900, true, 13, Level::High),
        ] {
            let points = points(fan_in, lines, tested, public);
            assert_eq!(level(points), expected, "{fan_in} {lines} {tested} {public}");
        }
    }
}
