//! Ranks the files by PageRank: a random walk over imports that starts at the files which the question names. It steps from
//! a file to one that it imports, and sometimes back to an importer.

use crate::survey::Survey;

const STEPS: usize = 24;
/// Probability that the walk continues instead of starting again. It is smaller with a question, so that the walk stays near
/// the files that the question is about.
const ON: f64 = 0.7;
const ON_ABOUT: f64 = 0.4;
/// Weight of a step back to an importer, against a step along an import.
const BACK: f64 = 0.35;

/// Returns the rank of each file. The largest is 1.
pub(crate) fn ranks(survey: &Survey, about: &[f64]) -> Vec<f64> {
    let count = survey.units.len();
    let on = if about.iter().any(|about| *about > 0.0) { ON_ABOUT } else { ON };
    let mut start = survey.all().map(|at| start(survey, at, about)).collect::<Vec<_>>();
    normalize(&mut start);
    let mut out = vec![0.0; count];
    for (from, to) in &survey.edges {
        out[*from as usize] += 1.0;
        out[*to as usize] += BACK;
    }
    let mut rank = start.clone();
    for _ in 0..STEPS {
        let mut next = start.iter().map(|share| share * (1.0 - on)).collect::<Vec<_>>();
        let mut stuck = 0.0;
        for at in 0..count {
            if out[at] == 0.0 {
                stuck += rank[at];
            }
        }
        for (from, to) in &survey.edges {
            let (from, to) = (*from as usize, *to as usize);
            next[to] += on * rank[from] / out[from];
            next[from] += on * rank[to] * BACK / out[to];
        }
        // A file without imports and importers starts the walk again.
        for at in 0..count {
            next[at] += on * stuck * start[at];
        }
        rank = next;
    }
    let most = rank.iter().copied().fold(0.0, f64::max);
    if most > 0.0 {
        rank.iter_mut().for_each(|rank| *rank /= most);
    }
    rank
}

/// Returns how likely the walk starts at a file: unlikely for tests and generated files, likely for those that the question is
/// about.
fn start(survey: &Survey, at: u32, about: &[f64]) -> f64 {
    let unit = survey.unit(at);
    let about = about.get(at as usize).copied().unwrap_or_default();
    let kind = match () {
        () if unit.language.is_none() => 0.15,
        () if unit.generated => 0.1,
        () if unit.is_test => 0.4,
        () => 1.0,
    };
    let base = if unit.language.is_some() { 0.02 } else { 0.0 };
    kind * (base + about)
}

fn normalize(shares: &mut [f64]) {
    let sum = shares.iter().sum::<f64>();
    let even = 1.0 / shares.len().max(1) as f64;
    shares.iter_mut().for_each(|share| *share = if sum > 0.0 { *share / sum } else { even });
}

/// Returns the indices of the files by rank, best first, equal ranks by path.
pub(crate) fn order(ranks: &[f64]) -> Vec<u32> {
    let mut order = (0..ranks.len() as u32).collect::<Vec<_>>();
    order.sort_by(|a, b| ranks[*b as usize].total_cmp(&ranks[*a as usize]).then(a.cmp(b)));
    order
}
