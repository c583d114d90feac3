/* What a tokenizer promises for any text, checked; for targets that get a tokenizer one way or another. */
#ifndef FUZZ_CHECK_TEXT_H
#define FUZZ_CHECK_TEXT_H

#include <stdbool.h>

#include "sereno/tokenizer.h"

/*
 * Tokenizes, and checks that the tokens' bytes are the text again and that they stream as valid UTF-8.
 * No control token comes out unless asked for. False when the vocabulary lacks a byte of the text.
 */
bool check_text(const sereno_tokenizer *t, const char *text, size_t size, bool parse_special);

#endif
