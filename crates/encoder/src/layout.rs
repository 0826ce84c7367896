//! The words of a prompt that are not the client's.
//!
//! Every byte here is part of what the model was trained on. A piece is what is tokenized in one go: joining two would let
//! a token span both, and that is another prompt.

/// From the start to the state.
pub(crate) const PREFIX: &str = "<|im_start|>system\n\
    Read the complete state and schema. Decide every field jointly. \
    Each answer must be exactly one of that field's allowed options.\
    <|im_end|>\n<|im_start|>user\nSTATE:\n";

/// Between the state and the first question.
pub(crate) const SCHEMA_HEADER: &str = "\n\nSCHEMA FIELDS:\n";

/// Between an instruction and its question's first option.
pub(crate) const OPTIONS_HEADER: &str = "\nALLOWED OPTIONS:\n";

/// After each option.
pub(crate) const OPTION_END: &str = "\n";

/// After a question's last option.
pub(crate) const FIELD_END: &str = "END FIELD\n";

/// From the last question to the end.
pub(crate) const SUFFIX: &str = "\n<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\nJOINT SCHEMA DECISIONS:";

/// Around every picture, every step of a video, and once more around a video.
pub(crate) const VISION_START: &str = "<|vision_start|>";
pub(crate) const VISION_END: &str = "<|vision_end|>";

/// What stands for one token of a picture, and of a video.
pub(crate) const IMAGE_PAD: &str = "<|image_pad|>";
pub(crate) const VIDEO_PAD: &str = "<|video_pad|>";

/// Between media and the state.
pub(crate) const MEDIA_END: &str = "\n";

/// Before a step of a video that is `seconds` into it.
pub(crate) fn step_header(seconds: f64) -> String {
    format!("<{seconds:.1} seconds>")
}

/// Before an instruction; `number` counts from 1.
pub(crate) fn field_header(number: usize, id: &str, kind: &str) -> String {
    format!("\nFIELD {number}\nID: {id}\nTYPE: {kind}\nINSTRUCTION: ")
}

/// Before an option; `number` counts from 1.
pub(crate) fn option_header(number: usize) -> String {
    format!("OPTION {number}: ")
}
