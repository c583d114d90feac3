/* All public headers; there is one for each concept. */
#ifndef SERENO_SERENO_H
#define SERENO_SERENO_H

#include "sereno/api.h"
#include "sereno/cancel.h"
#include "sereno/chat.h"
#include "sereno/clock.h"
#include "sereno/configuration.h"
#include "sereno/control.h"
#include "sereno/engine.h"
#include "sereno/error.h"
#include "sereno/experimental.h"
#include "sereno/frame_hint.h"
#include "sereno/governor.h"
#include "sereno/governor_hook.h"
#include "sereno/meter.h"
#include "sereno/model.h"
#include "sereno/plan.h"
#include "sereno/progress.h"
#include "sereno/request.h"
#include "sereno/sampler.h"
#include "sereno/sensor.h"
#include "sereno/session.h"
#include "sereno/speculation.h"
#include "sereno/text.h"
#include "sereno/tokenizer.h"

#endif
