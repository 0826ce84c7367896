//! Taking tokens by their logits, where text is generated.

use std::ptr::NonNull;

use clef_sys::llama_sampler;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::model::Message;
use crate::tokenizer::Token;

/// How tokens are taken.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// What logits are divided by, 0 to 100; at 0 the most probable token is taken.
    pub temperature: f32,
    /// How many of the most probable tokens are left to choose from; 0 for all.
    pub top_k: u32,
    /// The probability that those left to choose from have together, 0 to 1.
    pub top_p: f32,
    /// What chance starts from, below 2^32 - 1, which is how llama.cpp says the same as none: another start each time.
    pub seed: Option<u32>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { temperature: 0.7, top_k: 20, top_p: 0.8, seed: None }
    }
}

impl Sampling {
    fn check(&self) -> Result<()> {
        for (what, value, limit) in
            [("the temperature", self.temperature, 100.0), ("the probability of top-p", self.top_p, 1.0)]
        {
            if !(0.0..=limit).contains(&value) {
                return Err(Error::argument(format_args!("{what} must be 0 to {limit}, not {value}")));
            }
        }
        if self.seed == Some(u32::MAX) {
            return Err(Error::argument(format_args!("the seed must be below {}", u32::MAX)));
        }
        Ok(())
    }
}

/// A chain of llama.cpp's samplers. One thread at a time.
#[derive(Debug)]
pub struct Sampler(NonNull<llama_sampler>);

// SAFETY: samplers have no thread affinity; `&mut self` keeps them to one thread at a time.
unsafe impl Send for Sampler {}

impl Sampler {
    /// The most probable tokens, of these the fewest that have `top_p` together, then chance.
    ///
    /// # Errors
    /// If a number is out of its range.
    pub fn new(sampling: &Sampling) -> Result<Self> {
        sampling.check()?;
        let raw = clef_sys::clef_sampling {
            temperature: sampling.temperature,
            top_k: i32::try_from(sampling.top_k).unwrap_or(i32::MAX),
            top_p: sampling.top_p,
            is_seeded: sampling.seed.is_some(),
            seed: sampling.seed.unwrap_or_default(),
        };
        let mut pointer = std::ptr::null_mut();
        let mut message = Message::default();
        // SAFETY: both pointers are valid for the call.
        let status = unsafe { clef_sys::clef_sampler_new(&raw const raw, &raw mut pointer, message.as_raw()) };
        message.check(status, "the sampler cannot be made")?;
        NonNull::new(pointer).map(Self).ok_or_else(|| Error::upstream("no sampler came back"))
    }

    /// Takes a token by the logits of the context's last decode.
    ///
    /// # Errors
    /// If it computed none, or they are no numbers.
    pub fn sample(&mut self, context: &mut Context) -> Result<Token> {
        // llama.cpp asserts that something was chosen.
        if !context.logits()?.iter().all(|logit| logit.is_finite()) {
            return Err(Error::upstream("the model computed logits that are no numbers"));
        }
        let mut token = 0;
        let mut message = Message::default();
        // SAFETY: sampler and context are live and not shared, and the context has logits.
        let status = unsafe { clef_sys::clef_sample(self.0.as_ptr(), context.raw(), &raw mut token, message.as_raw()) };
        message.check(status, "no token can be taken")?;
        Ok(Token(token))
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        // SAFETY: this is the only owner.
        unsafe { clef_sys::llama_sampler_free(self.0.as_ptr()) };
    }
}
