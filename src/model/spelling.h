/*
 * How GPT-2 vocabularies write bytes as characters. A byte that is printable in Latin-1 is written as that character;
 * the others are written, in order, as U+0100, U+0101, ... Thread: any.
 */
#ifndef MODEL_SPELLING_H
#define MODEL_SPELLING_H

#include <stdint.h>

/* The character that a byte is written as. */
uint32_t spelling_of_byte(uint8_t byte);

/* The byte that a character stands for, or -1. */
int spelling_byte(uint32_t codepoint);

#endif
