//! Splits text into words as people see them in names (`parsePrice`, `parse_price` and `HTTPServer` have two words each) and
//! reduces English words to their stems, so that `caching`, `cached` and `caches` are one word.

/// Maximum length of a word in bytes. A longer one is data.
const LONGEST: usize = 40;

/// What a byte is in a word. A table answers faster than comparisons, and every byte of a text is asked for.
const OTHER: u8 = 0;
const UPPER: u8 = 1;
const LOWER: u8 = 2;
const DIGIT: u8 = 3;
const NOT_ASCII: u8 = 4;
static CLASSES: [u8; 256] = {
    let mut classes = [OTHER; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'A'..=b'Z' => UPPER,
            b'a'..=b'z' => LOWER,
            b'0'..=b'9' => DIGIT,
            0x80.. => NOT_ASCII,
            _ => OTHER,
        };
        byte += 1;
    }
    classes
};

/// Calls `found` with each word of a text as it is written there. Non-ASCII bytes in a row are one word, because no case is
/// known for them without a table.
pub(crate) fn each(text: &[u8], mut found: impl FnMut(&[u8])) {
    let class = |at: usize| text.get(at).map_or(OTHER, |byte| CLASSES[usize::from(*byte)]);
    let mut at = 0;
    while at < text.len() {
        let (start, first) = (at, class(at));
        at += 1;
        if first == OTHER {
            continue;
        }
        while class(at) == first {
            at += 1;
        }
        if first == UPPER && class(at) == LOWER {
            // The last capital begins the next word, as `S` in `HTTPServer`.
            match at - start {
                1 => {
                    while class(at) == LOWER {
                        at += 1;
                    }
                }
                _ => at -= 1,
            }
        }
        if at - start <= LONGEST {
            found(&text[start..at]);
        }
    }
}

/// Returns the stems of the words in a text.
#[cfg(test)]
pub(crate) fn stems(text: &str) -> Vec<Vec<u8>> {
    let mut stems = vec![];
    each(text.as_bytes(), |word| {
        let mut word = word.to_ascii_lowercase();
        stem(&mut word);
        stems.push(word);
    });
    stems
}

/// Reduces a word in lower case to its stem: without a plural's `s`, `ing`, `ed` and a last `e`. Two words may get one stem
/// by mistake, which costs little; a longer list of rules gains nothing on program text.
pub(crate) fn stem(word: &mut Vec<u8>) {
    if word.len() <= 3 || !word.is_ascii() {
        return;
    }
    let cut = |word: &mut Vec<u8>, count: usize| word.truncate(word.len() - count);
    if word.ends_with(b"sses") {
        cut(word, 2);
    } else if word.ends_with(b"ies") {
        cut(word, 3);
        word.push(b'y');
    } else if word.ends_with(b"s") && !word.ends_with(b"ss") && !word.ends_with(b"us") {
        cut(word, 1);
    }
    let is_vowel = |byte: &u8| matches!(byte, b'a' | b'e' | b'i' | b'o' | b'u' | b'y');
    for ending in [b"ing".as_slice(), b"ed"] {
        let Some(rest) = word.strip_suffix(ending) else { continue };
        if rest.len() >= 3 && rest.iter().any(is_vowel) {
            cut(word, ending.len());
            if let [.., before, last] = word[..]
                && word.len() > 3
                && before == last
                && !matches!(last, b'l' | b's' | b'z')
            {
                cut(word, 1);
            }
            break;
        }
    }
    if word.len() > 4 && word.ends_with(b"e") {
        cut(word, 1);
    }
}

/// Words of requests and commit messages that say little about code. They count for little, not for nothing: where nothing
/// else matches, they still prefer files that talk.
const WEAK: &str = "\
    a about add added adding adds after all also an and any are as at author be because been before but by can change changed \
    changes close closes co code could did do does every file files fix fixed fixes for from get github given give good \
    got had has have how http https i if in into is issue it its just like made make makes may merge more most must need \
    needs new no not now of on one only or other our out over pr pull ref refs repository resolved resolves reviewed same see \
    should so some such than that the their them then there these they this to today too up url use used uses using via want \
    wanted was we were what when where which while who why will with without would www you your";

/// Returns whether a word, before stemming, says little: a very common one, a number, a single letter.
pub(crate) fn is_weak(word: &[u8]) -> bool {
    let is_number = word.iter().all(u8::is_ascii_digit);
    word.len() < 2 || is_number || WEAK.split_whitespace().any(|weak| weak.as_bytes() == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut words = vec![];
        each(text.as_bytes(), |word| {
            words.push(String::from_utf8_lossy(&word.to_ascii_lowercase()).into_owned())
        });
        words
    }

    #[test]
    fn names_are_split_where_people_see_words() {
        for (name, expected) in [
            ("parsePrice", vec!["parse", "price"]),
            ("parse_prices", vec!["parse", "prices"]),
            ("HTTPServer2", vec!["http", "server", "2"]),
            ("class-address", vec!["class", "address"]),
            ("IDs", vec!["i", "ds"]),
            ("größe", vec!["gr", "öß", "e"]),
            ("__", vec![]),
        ] {
            assert_eq!(words(name), expected, "{name}");
        }
        assert_eq!(words(&"x".repeat(41)), [""; 0], "data is no word");
    }

    #[test]
    fn forms_of_a_word_have_one_stem() {
        for (stem, forms) in [
            ("cach", ["cache", "caches", "cached", "caching"]),
            ("pars", ["parse", "parses", "parsed", "parsing"]),
            ("stop", ["stop", "stops", "stopped", "stopping"]),
            ("query", ["query", "queries", "query", "query"]),
            ("class", ["class", "classes", "class", "class"]),
        ] {
            for form in forms {
                assert_eq!(stems(form), [stem.as_bytes()], "{form}");
            }
        }
        assert_eq!(
            stems("status bus red thing"),
            ["status", "bus", "red", "thing"].map(str::as_bytes)
        );
    }
}
