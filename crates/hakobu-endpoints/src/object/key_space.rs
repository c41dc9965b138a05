//! Guesses of keys between two keys, to begin a listing there.
//!
//! Names are numbers whose digits at a place are the characters that the names seen so far have there. With names that are
//! numbered, dated or random, these numbers are spread evenly, so that a guess divides the names as it divides the numbers.

use std::collections::BTreeSet;

/// The number of characters before the first difference that a guess may change, because the next number may carry.
const CARRIES: usize = 4;
/// The number of characters of names that count.
const PLACES: usize = 64;

/// The characters that the keys with a prefix consist of.
#[derive(Debug)]
pub(crate) struct KeyAlphabet {
    prefix: String,
    places: Vec<BTreeSet<char>>,
}

impl KeyAlphabet {
    pub(crate) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned(), places: Vec::new() }
    }

    /// Adds the characters of a key.
    pub(crate) fn add(&mut self, key: &str) {
        for (place, letter) in self.name(key).chars().take(PLACES).enumerate() {
            if place == self.places.len() {
                self.places.push(BTreeSet::new());
            }
            if let Some(digits) = self.places.get_mut(place)
                && digits.insert(letter)
                && letter.is_ascii_digit()
            {
                // A number has any digits at a later place of the listing.
                digits.extend('0'..='9');
            }
        }
    }

    /// Returns a key about as far behind `last` as that is behind `first`, or `None` if there is none.
    pub(crate) fn beyond(&self, first: &str, last: &str) -> Option<String> {
        let sum =
            |first: u128, last: u128| last.checked_add(last.checked_sub(first).filter(|step| *step > 0)?);
        self.combine(first, last, sum).filter(|key| key.as_str() > last)
    }

    /// Returns a key about in the middle between two keys, or `None` if there is none.
    pub(crate) fn middle(&self, from: &str, until: &str) -> Option<String> {
        let middle = |from: u128, until: u128| Some(from + until.checked_sub(from)? / 2);
        self.combine(from, until, middle).filter(|key| key.as_str() > from && key.as_str() < until)
    }

    /// Returns the digits of each place from `head` on. In hexadecimal names, the first places have not been seen with all of
    /// them.
    fn digits(&self, head: usize) -> Vec<BTreeSet<char>> {
        let is_number = |digits: &&BTreeSet<char>| digits.iter().any(char::is_ascii_digit);
        let with_letters = |digits: &&BTreeSet<char>| digits.iter().any(char::is_ascii_alphabetic);
        let of_numbers: BTreeSet<char> =
            self.places.iter().filter(is_number).filter(with_letters).flatten().copied().collect();
        let places = self.places.iter().skip(head);
        places.map(|digits| if is_number(&digits) { digits | &of_numbers } else { digits.clone() }).collect()
    }

    fn name<'a>(&self, key: &'a str) -> &'a str {
        key.strip_prefix(&self.prefix).unwrap_or_default()
    }

    fn combine(&self, low: &str, high: &str, to: impl FnOnce(u128, u128) -> Option<u128>) -> Option<String> {
        let letters = |key: &str| self.name(key).chars().take(PLACES).collect::<Vec<char>>();
        let (low, high) = (letters(low), letters(high));
        let same = low.iter().zip(&high).take_while(|(one, other)| one == other).count();
        let head = same.saturating_sub(CARRIES);
        let places = self.digits(head);
        let mut most = 1_u128;
        let fits = |digits: &&BTreeSet<char>| {
            let fits = most.checked_mul(digits.len() as u128);
            fits.is_some_and(|product| {
                most = product;
                true
            })
        };
        let places: Vec<&BTreeSet<char>> = places.iter().take_while(fits).collect();
        let number = |name: &[char]| {
            places.iter().enumerate().fold(0_u128, |number, (place, digits)| {
                let digit = name.get(head + place).map_or(0, |one| digits.range(..one).count());
                number * digits.len() as u128 + digit.min(digits.len() - 1) as u128
            })
        };
        let mut number = to(number(&low), number(&high)).filter(|number| *number < most)?;
        let mut tail = vec!['\0'; places.len()];
        for (letter, digits) in tail.iter_mut().zip(&places).rev() {
            let base = digits.len() as u128;
            *letter = digits.iter().nth((number % base) as usize).copied()?;
            number /= base;
        }
        let name = high.iter().take(head).chain(&tail);
        Some(self.prefix.chars().chain(name.copied()).collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn alphabet(keys: &[String]) -> KeyAlphabet {
        let mut alphabet = KeyAlphabet::new("");
        keys.iter().for_each(|key| alphabet.add(key));
        alphabet
    }

    #[test]
    fn numbered_keys_are_divided_evenly() {
        let keys: Vec<String> = (0..100_000).map(|number| format!("log/k{number:07}.gz")).collect();
        let alphabet = alphabet(&keys);
        let place = |key: &str| keys.partition_point(|known| known.as_str() <= key);
        let beyond = place(&alphabet.beyond(&keys[0], &keys[10_000]).unwrap());
        assert!((15_000..30_000).contains(&beyond), "{beyond}");
        let middle = place(&alphabet.middle(&keys[10_000], &keys[90_000]).unwrap());
        assert!((30_000..70_000).contains(&middle), "{middle}");
        // A number more carries into what all keys so far begin with.
        let carried = place(&alphabet.beyond(&keys[50], &keys[9_999]).unwrap());
        assert!((15_000..30_000).contains(&carried), "{carried}");
    }

    #[test]
    fn random_keys_are_divided_evenly() {
        let mut keys: Vec<String> =
            (0_u32..50_000).map(|number| blake3::hash(&number.to_le_bytes()).to_hex().to_string()).collect();
        keys.sort();
        let alphabet = alphabet(&keys[..2000]);
        let middle = alphabet.middle(&keys[5000], &keys[45_000]).unwrap();
        let middle = keys.partition_point(|known| *known <= middle);
        assert!((24_000..26_000).contains(&middle), "{middle}");
    }

    #[test]
    fn there_is_not_always_a_key_in_between() {
        let alphabet = alphabet(&["ab".to_owned()]);
        assert_eq!(alphabet.middle("a", "a"), None);
        assert_eq!(KeyAlphabet::new("x").middle("", ""), None);
        assert_eq!(alphabet.beyond("bbbb", "bbbb"), None);
    }

    proptest! {
        #[test]
        fn a_guess_is_in_between(keys in proptest::collection::vec(".{0,40}", 2..6)) {
            let alphabet = alphabet(&keys);
            let (low, high) = (keys.iter().min().unwrap(), keys.iter().max().unwrap());
            if let Some(middle) = alphabet.middle(low, high) {
                prop_assert!(*low < middle && middle < *high);
            }
            if let Some(beyond) = alphabet.beyond(low, high) {
                prop_assert!(*high < beyond);
            }
        }
    }
}
