use super::*;
use crate::random::Random;

/// A state written as a word: one letter, one token.
fn tokens(word: &str) -> Arc<[TokenId]> {
    word.bytes().map(|byte| TokenId(byte.into())).collect()
}

/// A cache of entries of one byte each, named after their words, the first the least recently used.
fn cache(budget: usize, entries: &[(&str, &[usize])]) -> StateCache<String> {
    let mut cache = StateCache::new(budget);
    for &(word, boundaries) in entries {
        assert_eq!(insert(&mut cache, word, boundaries, 1), Ok(Vec::new()));
    }
    cache
}

fn insert(
    cache: &mut StateCache<String>,
    word: &str,
    boundaries: &[usize],
    bytes: usize,
) -> Result<Vec<String>, String> {
    cache.insert(tokens(word), boundaries.to_vec(), word.to_owned(), bytes)
}

/// What a prompt goes on from: the boundary and the entry's word.
fn find(cache: &mut StateCache<String>, prompt: &str, cuts: &[usize]) -> Option<(usize, String)> {
    let peeked = cache.peek(&tokens(prompt), cuts);
    let found = cache.find(&tokens(prompt), cuts).map(|hit| {
        assert_eq!(hit.tokens, hit.payload.len());
        (hit.boundary, hit.payload.clone())
    });
    assert_eq!(peeked, found.as_ref().map_or(0, |(boundary, _)| *boundary));
    found
}

/// The words that are held, the most recently used first.
fn held(cache: &StateCache<String>) -> Vec<&str> {
    cache.entries.iter().rev().map(|entry| entry.payload.as_str()).collect()
}

fn hit(boundary: usize, word: &str) -> Option<(usize, String)> {
    Some((boundary, word.to_owned()))
}

#[test]
fn the_longest_boundary_wins() {
    let mut cache = cache(9, &[("aabbb", &[2, 5]), ("aabbc", &[2, 4, 5]), ("aa", &[2])]);
    assert_eq!(find(&mut cache, "aabbbz", &[1, 2, 3, 4, 5]), hit(5, "aabbb"));
    assert_eq!(find(&mut cache, "aabbzz", &[1, 2, 3, 4, 5]), hit(4, "aabbc"));
    assert_eq!(find(&mut cache, "aabzzz", &[1, 2, 3, 4, 5]), hit(2, "aa"));
    assert_eq!(find(&mut cache, "azzzzz", &[1, 2, 3, 4, 5]), None);
}

#[test]
fn a_boundary_that_is_no_cut_falls_back_to_a_shorter_one() {
    let mut cache = cache(9, &[("aabbb", &[2, 4, 5])]);
    assert_eq!(find(&mut cache, "aabbbz", &[2, 4]), hit(4, "aabbb"));
    assert_eq!(find(&mut cache, "aabbbz", &[2, 3]), hit(2, "aabbb"));
    assert_eq!(find(&mut cache, "aabbbz", &[1, 3]), None);
    assert_eq!(find(&mut cache, "aabbbz", &[]), None);
}

#[test]
fn a_prompt_that_branches_between_boundaries_goes_on_from_the_one_before() {
    let mut cache = cache(9, &[("aaaabbbcccc", &[4, 7, 11])]);
    assert_eq!(find(&mut cache, "aaaabbbccxxxyy", &[4, 7, 9, 12]), hit(7, "aaaabbbcccc"));
    assert_eq!(find(&mut cache, "aaaabbbccxxxyy", &[4, 9, 12]), hit(4, "aaaabbbcccc"));
    assert_eq!(cache.shared_prefix(&tokens("aaaabbbccxxxyy")), 9);
}

#[test]
fn the_whole_prompt_is_never_a_hit() {
    let mut cache = cache(9, &[("aabb", &[2, 4])]);
    assert_eq!(find(&mut cache, "aabb", &[2, 4]), hit(2, "aabb"));
    assert_eq!(find(&mut cache, "aa", &[2]), None);
    assert_eq!(find(&mut cache, "", &[0]), None);
    assert_eq!(cache.shared_prefix(&tokens("aabb")), 4);
}

#[test]
fn nothing_beyond_a_changed_token_is_a_hit() {
    let cuts: Vec<usize> = (0..=8).collect();
    for changed in 0..8 {
        let mut cache = cache(9, &[("abcdefgh", &[1, 2, 3, 4, 5, 6, 7, 8])]);
        let mut prompt = "abcdefghi".to_owned();
        prompt.replace_range(changed..=changed, "z");
        let expected = if changed == 0 { None } else { hit(changed, "abcdefgh") };
        assert_eq!(find(&mut cache, &prompt, &cuts), expected, "{prompt}");
        assert_eq!(cache.shared_prefix(&tokens(&prompt)), changed);
    }
}

#[test]
fn of_equal_boundaries_the_shortest_entry_and_then_the_most_recent_one_is_taken() {
    let mut cache = cache(9, &[("aabb", &[2, 4]), ("aacc", &[2, 4]), ("aaddd", &[2, 5])]);
    assert_eq!(find(&mut cache, "aaz", &[2]), hit(2, "aacc"));
    assert_eq!(find(&mut cache, "aabbz", &[2, 4]), hit(4, "aabb"));
    assert_eq!(find(&mut cache, "aaz", &[2]), hit(2, "aabb"));
    assert_eq!(insert(&mut cache, "aa", &[2], 1), Ok(vec![]));
    assert_eq!(find(&mut cache, "aabbz", &[2, 4]), hit(4, "aabb"));
    assert_eq!(find(&mut cache, "aaz", &[2]), hit(2, "aa"));
}

#[test]
fn the_least_recently_used_go_first_and_no_more_than_have_to() {
    let mut cache = cache(4, &[("a", &[1]), ("b", &[1]), ("c", &[1]), ("d", &[1])]);
    assert_eq!(find(&mut cache, "ax", &[1]), hit(1, "a"));
    assert_eq!(cache.peek(&tokens("bx"), &[1]), 1);
    assert_eq!(held(&cache), ["a", "d", "c", "b"]);
    assert_eq!(insert(&mut cache, "e", &[1], 2), Ok(vec!["b".to_owned(), "c".to_owned()]));
    assert_eq!(held(&cache), ["e", "a", "d"]);
    assert_eq!(cache.bytes(), 4);
    assert_eq!(insert(&mut cache, "f", &[1], 4), Ok(vec!["d".to_owned(), "a".to_owned(), "e".to_owned()]));
    assert_eq!(held(&cache), ["f"]);
}

#[test]
fn what_exceeds_the_whole_budget_is_refused_and_evicts_nothing() {
    let mut cache = cache(2, &[("a", &[1]), ("b", &[1])]);
    assert!(cache.would_keep(2) && !cache.would_keep(3));
    assert_eq!(insert(&mut cache, "abc", &[1, 3], 3), Err("abc".to_owned()));
    assert_eq!(insert(&mut cache, "a", &[1], 3), Err("a".to_owned()));
    assert_eq!(held(&cache), ["b", "a"]);
}

#[test]
fn equal_tokens_are_replaced_and_their_uses_go_on() {
    let mut cache = cache(9, &[("aabb", &[2, 4]), ("c", &[1])]);
    assert_eq!(find(&mut cache, "aaz", &[2]), hit(2, "aabb"));
    assert_eq!(cache.insert(tokens("aabb"), vec![3, 4], "anew".to_owned(), 5), Ok(vec!["aabb".to_owned()]));
    let anew = HeldState { tokens: 4, boundaries: vec![3, 4], bytes: 5, uses: 1 };
    let other = HeldState { tokens: 1, boundaries: vec![1], bytes: 1, uses: 0 };
    assert_eq!(cache.entries().collect::<Vec<_>>(), [anew, other]);
    assert_eq!(find(&mut cache, "aaz", &[2]), None);
    assert_eq!(find(&mut cache, "aabz", &[2, 3]), hit(3, "anew"));
}

#[test]
fn a_replaced_entry_makes_room_before_others_are_evicted() {
    let mut cache = cache(4, &[("a", &[1])]);
    assert_eq!(insert(&mut cache, "b", &[1], 3), Ok(vec![]));
    assert_eq!(insert(&mut cache, "b", &[1], 3), Ok(vec!["b".to_owned()]));
    assert_eq!(held(&cache), ["b", "a"]);
}

#[test]
fn a_prefix_is_superseded_only_if_all_its_boundaries_are_covered() {
    let mut cache = cache(9, &[("aa", &[2]), ("aab", &[1, 3]), ("ab", &[2])]);
    assert_eq!(find(&mut cache, "aaz", &[2]), hit(2, "aa"));
    assert_eq!(insert(&mut cache, "aabb", &[2, 3, 4], 1), Ok(vec!["aa".to_owned()]));
    assert_eq!(held(&cache), ["aabb", "ab", "aab"]);
    assert_eq!(cache.entries().next().map(|entry| entry.uses), Some(0));
    assert_eq!(find(&mut cache, "azz", &[1]), hit(1, "aab"));
}

#[test]
fn a_longer_entry_is_not_superseded_by_its_prefix() {
    let mut cache = cache(9, &[("aabb", &[2, 4])]);
    assert_eq!(insert(&mut cache, "aa", &[2], 1), Ok(vec![]));
    assert_eq!(held(&cache), ["aa", "aabb"]);
}

#[test]
fn a_budget_of_zero_keeps_nothing() {
    let mut cache = cache(0, &[]);
    assert!(!cache.would_keep(0) && !cache.would_keep(1));
    assert_eq!(insert(&mut cache, "a", &[1], 0), Err("a".to_owned()));
    assert!(cache.is_empty());
}

#[test]
fn an_unlimited_budget_keeps_everything() {
    let words: Vec<String> = (1..=200).map(|length| "x".repeat(length) + "y").collect();
    let mut cache = cache(usize::MAX, &[]);
    for word in &words {
        assert!(cache.would_keep(usize::MAX));
        assert_eq!(insert(&mut cache, word, &[word.len()], 1 << 40), Ok(vec![]));
    }
    assert_eq!((cache.len(), cache.bytes(), cache.budget()), (200, 200 << 40, usize::MAX));
    cache.clear();
    assert_eq!((cache.len(), cache.bytes()), (0, 0));
}

#[test]
fn boundaries_that_are_none_are_refused_loudly() {
    for boundaries in [&[][..], &[0, 2], &[1], &[1, 1, 2], &[2, 1], &[1, 2, 3]] {
        let inserted = std::panic::catch_unwind(|| insert(&mut cache(9, &[]), "aa", boundaries, 1));
        assert!(inserted.is_err(), "{boundaries:?}");
    }
}

#[test]
fn media_are_told_apart_by_their_content() {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Key {
        Token(TokenId),
        Media { digest: u64, index: u32 },
    }
    let state = |digest| [Key::Token(TokenId(7)), Key::Media { digest, index: 0 }, Key::Media { digest, index: 1 }];
    let prompt = |digest| [&state(digest)[..], &[Key::Token(TokenId(8))]].concat();
    let mut cache = StateCache::new(9);
    assert_eq!(cache.insert(Arc::from(state(1)), vec![1, 3], "cat", 1), Ok(vec![]));
    assert_eq!(cache.find(&prompt(1), &[1, 3]), Some(Hit { boundary: 3, payload: &"cat", tokens: 3 }));
    assert_eq!(cache.find(&prompt(2), &[1, 3]), Some(Hit { boundary: 1, payload: &"cat", tokens: 3 }));
}

/// The same rules in the most obvious words: every length is tried, every entry has the time of its last use.
#[derive(Default)]
struct Naive {
    entries: Vec<NaiveEntry>,
    budget: usize,
    time: u64,
}

#[derive(Clone)]
struct NaiveEntry {
    tokens: Vec<TokenId>,
    boundaries: Vec<usize>,
    payload: u64,
    bytes: usize,
    uses: u64,
    used_at: u64,
}

impl Naive {
    fn find(&mut self, tokens: &[TokenId], cuts: &[usize]) -> Option<(usize, u64, usize)> {
        self.time += 1;
        for length in (1..tokens.len()).rev().filter(|length| cuts.contains(length)) {
            let mut best: Option<&mut NaiveEntry> = None;
            for entry in &mut self.entries {
                if !entry.boundaries.contains(&length) || entry.tokens[..length] != tokens[..length] {
                    continue;
                }
                let better = match &best {
                    None => true,
                    Some(best) if entry.tokens.len() == best.tokens.len() => entry.used_at > best.used_at,
                    Some(best) => entry.tokens.len() < best.tokens.len(),
                };
                if better {
                    best = Some(entry);
                }
            }
            if let Some(entry) = best {
                entry.uses += 1;
                entry.used_at = self.time;
                return Some((length, entry.payload, entry.tokens.len()));
            }
        }
        None
    }

    fn shared_prefix(&self, tokens: &[TokenId]) -> usize {
        let shared = |length: &usize| self.entries.iter().any(|entry| entry.tokens.starts_with(&tokens[..*length]));
        (1..=tokens.len()).rev().find(shared).unwrap_or(0)
    }

    /// The payloads that went, or none if the new one is refused.
    fn insert(&mut self, mut new: NaiveEntry) -> Option<Vec<u64>> {
        if self.budget == 0 || new.bytes > self.budget {
            return None;
        }
        self.time += 1;
        new.used_at = self.time;
        let mut gone = Vec::new();
        for old in std::mem::take(&mut self.entries) {
            let equal = old.tokens == new.tokens;
            let prefix = old.tokens.len() < new.tokens.len() && old.tokens == new.tokens[..old.tokens.len()];
            let covered = old.boundaries.iter().all(|boundary| new.boundaries.contains(boundary));
            if equal {
                new.uses = old.uses;
            }
            if equal || (prefix && covered) {
                gone.push(old.payload);
            } else {
                self.entries.push(old);
            }
        }
        let budget = self.budget as u128;
        while self.entries.iter().chain([&new]).map(|entry| entry.bytes as u128).sum::<u128>() > budget {
            let oldest = (0..self.entries.len()).min_by_key(|&index| self.entries[index].used_at).unwrap();
            gone.push(self.entries.remove(oldest).payload);
        }
        self.entries.push(new);
        Some(gone)
    }
}

/// Few different tokens, so that states share their beginnings.
fn random_tokens(random: &mut Random, least: usize) -> Vec<TokenId> {
    let length = least + random.below(9);
    (0..length).map(|_| TokenId(i32::from(random.below(2) == 1))).collect()
}

/// Some of the lengths from `first` up to and including `last`, ascending.
fn random_lengths(random: &mut Random, first: usize, last: usize) -> Vec<usize> {
    (first..=last).filter(|_| random.below(3) > 0).collect()
}

fn assert_consistent(cache: &StateCache<u64>) {
    assert!(cache.bytes() <= cache.budget);
    assert_eq!(cache.bytes(), cache.entries().map(|entry| entry.bytes).sum());
    assert_eq!(cache.len(), cache.entries().count());
    for (index, entry) in cache.entries.iter().enumerate() {
        assert!(entry.boundaries.is_sorted_by(|a, b| a < b), "{entry:?}");
        assert!(entry.boundaries[0] > 0, "{entry:?}");
        assert_eq!(entry.boundaries.last(), Some(&entry.tokens.len()));
        assert!(cache.entries[..index].iter().all(|other| other.tokens != entry.tokens), "{entry:?}");
    }
}

#[test]
fn a_hundred_thousand_random_rounds_agree_with_a_naive_cache() {
    let (mut hits, mut rewound, mut gone_for_others, mut refused) = (0, 0, 0, 0);
    for (seed, budget) in (1..).zip([0, 1, 10, 20, 40, 40, 80, 80, 160, usize::MAX]) {
        eprintln!("seed {seed}, budget {budget}");
        let mut random = Random::new(seed);
        let mut cache = StateCache::new(budget);
        let mut naive = Naive { budget, ..Naive::default() };
        for round in 0..10_000 {
            match random.below(1_000) {
                0 => {
                    cache.clear();
                    naive.entries.clear();
                }
                1..500 => {
                    let tokens = random_tokens(&mut random, 0);
                    let cuts = random_lengths(&mut random, 0, tokens.len() + 1);
                    assert_eq!(cache.shared_prefix(&tokens), naive.shared_prefix(&tokens), "round {round}");
                    let peeked = cache.peek(&tokens, &cuts);
                    let found = cache.find(&tokens, &cuts).map(|hit| (hit.boundary, *hit.payload, hit.tokens));
                    assert_eq!(found, naive.find(&tokens, &cuts), "round {round}: {tokens:?} cut at {cuts:?}");
                    assert_eq!(peeked, found.map_or(0, |(boundary, ..)| boundary), "round {round}");
                    hits += usize::from(found.is_some());
                    rewound += usize::from(found.is_some_and(|(boundary, _, length)| boundary < length));
                }
                _ => {
                    let tokens = random_tokens(&mut random, 1);
                    let mut boundaries = random_lengths(&mut random, 1, tokens.len() - 1);
                    boundaries.push(tokens.len());
                    let bytes = random.below(24);
                    let new = NaiveEntry {
                        tokens: tokens.clone(),
                        boundaries: boundaries.clone(),
                        payload: round,
                        bytes,
                        uses: 0,
                        used_at: 0,
                    };
                    let kept = cache.would_keep(bytes);
                    let inserted = cache.insert(Arc::from(tokens), boundaries, round, bytes);
                    assert_eq!(kept, inserted.is_ok(), "round {round}");
                    refused += usize::from(!kept);
                    let expected = naive.insert(new).ok_or(round);
                    let sorted = |mut gone: Vec<u64>| {
                        gone.sort_unstable();
                        gone
                    };
                    let (inserted, expected) = (inserted.map(sorted), expected.map(sorted));
                    assert_eq!(inserted, expected, "round {round}");
                    gone_for_others += inserted.map_or(0, |gone| gone.len());
                }
            }
            assert_consistent(&cache);
            let mut expected = naive.entries.clone();
            expected.sort_by_key(|entry| Reverse(entry.used_at));
            let expected = expected.into_iter().map(|entry| HeldState {
                tokens: entry.tokens.len(),
                boundaries: entry.boundaries,
                bytes: entry.bytes,
                uses: entry.uses,
            });
            assert!(cache.entries().eq(expected), "round {round}");
        }
    }
    for (what, count) in [("hits", hits), ("rewound", rewound), ("gone", gone_for_others), ("refused", refused)] {
        assert!(count > 5_000, "{what} happened only {count} times: the rounds prove little");
    }
}

#[test]
fn a_smaller_budget_drops_the_least_recently_used() {
    let mut cache: StateCache<&str, u32> = StateCache::new(30);
    for (first, name) in [(1, "a"), (2, "b"), (3, "c")] {
        cache.insert(vec![first, 0].into(), vec![2], name, 10).expect("it fits");
    }
    assert!(cache.find(&[1, 0, 9], &[2]).is_some());
    assert_eq!(cache.set_budget(30), [""; 0]);
    assert_eq!(cache.set_budget(19), ["b", "c"]);
    assert_eq!((cache.len(), cache.bytes(), cache.budget()), (1, 10, 19));
    assert_eq!(cache.set_budget(0), ["a"]);
    assert!(cache.is_empty());
}
