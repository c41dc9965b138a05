//! A small cache with linear search, which is faster than a map for so few items.

/// A cache of up to `limit` values, which evicts the least recently used.
#[derive(Debug)]
pub(crate) struct LruCache<K, V> {
    items: Vec<(K, V)>,
    limit: usize,
}

impl<K, V> LruCache<K, V> {
    /// Creates an empty cache.
    pub(crate) fn new(limit: usize) -> Self {
        Self { items: Vec::with_capacity(limit), limit }
    }

    /// Returns the value whose key matches `wanted`, and makes it the most recently used.
    pub(crate) fn find(&mut self, wanted: impl Fn(&K) -> bool) -> Option<&mut V> {
        let index = self.items.iter().position(|(key, _)| wanted(key))?;
        // The most recently used value is at the end.
        self.items[index..].rotate_left(1);
        self.items.last_mut().map(|(_, value)| value)
    }

    /// Adds a value.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.items.len() >= self.limit {
            self.items.remove(0);
        }
        self.items.push((key, value));
    }

    /// Removes the values whose keys match `unwanted`.
    pub(crate) fn forget(&mut self, unwanted: impl Fn(&K) -> bool) {
        self.items.retain(|(key, _)| !unwanted(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_not_used_for_longest_goes() {
        let mut recent = LruCache::new(2);
        recent.insert(1, "one");
        recent.insert(2, "two");
        assert_eq!(recent.find(|&key| key == 1), Some(&mut "one"));
        recent.insert(3, "three");
        assert_eq!(recent.find(|&key| key == 2), None);
        assert!(recent.find(|&key| key == 1).is_some() && recent.find(|&key| key == 3).is_some());
        recent.forget(|&key| key == 1);
        assert_eq!(recent.find(|&key| key == 1), None);
    }
}
